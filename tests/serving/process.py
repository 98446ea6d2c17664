"""Starts a server as a process of its own and talks to it; always ends it."""

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

from free_port import a_free_port

ROOT = Path(__file__).parents[2]


@dataclass
class ServerProcess:
    process: asyncio.subprocess.Process
    client: httpx.AsyncClient
    admin_port: int
    log: Path

    async def ready(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while True:
                if self.process.returncode is not None:
                    raise AssertionError(f"the server ended early:\n{self.log.read_text()}")
                with contextlib.suppress(httpx.TransportError):
                    if (await self.client.get("/ready")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@contextlib.asynccontextmanager
async def a_server_process(
    module: str, *arguments: str, folder: Path, start_seconds: float = 20, **environment: str
):
    """Run `python -m module ARGUMENTS --port=...` while the block lasts; its output goes into `folder`."""
    port, admin_port = a_free_port(), a_free_port()
    log = folder / "server.log"
    paths = os.pathsep.join(str(ROOT / part) for part in ("pod_runtime", "tests"))
    variables = {
        **os.environ,
        **environment,
        "PYTHONPATH": paths,
        "TERMINATION_LOG_OF_TEST": str(folder / "termination.log"),
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments, f"--port={port}", f"--admin-port={admin_port}",
            env=variables, stdout=output, stderr=output,
        )  # fmt: skip
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120, limits=limits) as client:
        server = ServerProcess(process, client, admin_port, log)
        try:
            await server.ready(start_seconds)
            yield server
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

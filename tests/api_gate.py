"""A gate between one operator and the API server: closed, nothing gets through and open connections break.

It passes TLS through untouched, so the operator talks to the real server under its own name. Other clients of
the test reach the server past the gate.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import yaml


@dataclass(slots=True, eq=False)
class Connection:
    """One of the operator's connections. `asked`: loop time at which it last sent something."""

    asked: float
    flows: asyncio.Event = field(default_factory=asyncio.Event)


class ApiGate:
    """Use as `async with ApiGate(kubeconfig, folder) as gate`; `gate.through(path)` rewrites a kubeconfig."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        server = urlsplit(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        self._target = (server.hostname or "127.0.0.1", server.port or 443)
        self._folder = folder
        self._is_open = True
        self._stalls = False
        self._connections: set[Connection] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        assert self._listener is not None
        self._listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """From now on refuse; cut what is open."""
        self._is_open = False
        for writer in list(self._writers):
            writer.transport.abort()

    def stall(self) -> None:
        """From now on accept and hold everything: connections stay open and no byte moves."""
        self._stalls = True
        for connection in self._connections:
            connection.flows.clear()

    def silence_watches(self, *, quiet_seconds: float = 3.0) -> int:
        """Hold what comes on the connections that only listen, and tell how many they are; all others go on.

        A watch asks once and then listens, while calls and the lease ask again every second or two.
        """
        now = asyncio.get_running_loop().time()
        listening = [each for each in self._connections if now - each.asked > quiet_seconds]
        for connection in listening:
            connection.flows.clear()
        return len(listening)

    def open(self) -> None:
        self._is_open, self._stalls = True, False
        for connection in self._connections:
            connection.flows.set()

    def through(self, kubeconfig: Path) -> Path:
        """A copy of the kubeconfig that goes through the gate."""
        document: Any = yaml.safe_load(kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = self._folder / f"gated-{kubeconfig.name}"
        path.write_text(yaml.safe_dump(document))
        return path

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, far_writer}
        connection = Connection(asked=asyncio.get_running_loop().time())
        self._connections.add(connection)
        if not self._stalls:
            connection.flows.set()
        ways = [
            asyncio.create_task(self._copy(reader, far_writer, connection, asks=True)),
            asyncio.create_task(self._copy(far_reader, writer, connection)),
        ]
        self._tasks |= set(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, far_writer):
            end.transport.abort()
            self._writers.discard(end)
        connection.flows.set()
        await asyncio.wait(ways)
        self._tasks -= set(ways)
        self._connections.discard(connection)

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: Connection,
        *,
        asks: bool = False,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if asks:
                    connection.asked = asyncio.get_running_loop().time()
                await connection.flows.wait()
                writer.write(data)
                await writer.drain()

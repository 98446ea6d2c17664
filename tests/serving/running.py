"""Servers that really listen, on free ports of this machine, with an engine that answers by script."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from free_port import a_free_port
from kvis_runtime.serve.backend import Backend
from kvis_runtime.serve.drain import DrainTimes
from kvis_runtime.serve.runtime import Runtime, build
from kvis_runtime.serve.scripted_engine import ScriptedEngine
from kvis_runtime.serve.server import serve
from kvis_runtime.serve.settings import ServeSettings
from kvis_runtime.serve.tokens import TextCodec
from serving.codec import a_codec
from serving.waiting import eventually

MODEL_NAME = "tiny"
POD_UID = "3b1f6a52-0d5e-4a1e-9f3e-1c0a7c1f0001"


def some_settings(**changes) -> ServeSettings:
    defaults = {
        "model": Path("unused"),
        "served_name": MODEL_NAME,
        "host": "127.0.0.1",
        "port": a_free_port(),
        "admin_port": a_free_port(),
        "admin_public_key": Path("/nonexistent/public.pem"),
        "pod_uid": POD_UID,
        "max_num_queued_reqs": 256,
        "cache_dtype": "float32",
        "prefix_caching": True,
        "drain": DrainTimes(propagation=0.0, timeout=5.0),
    }
    return ServeSettings(**(defaults | changes))


def saying(text: str, codec: TextCodec | None = None):
    """A script that answers every request with `text`, repeated as long as it takes, then stops."""
    ids = (codec or a_codec()).encode_text(text)
    return lambda request: (
        ids * (request.params.max_tokens // len(ids) + 1) if request.params.ignore_eos else ids
    )


def an_engine(text: str = "Hello there.", **settings) -> ScriptedEngine:
    return ScriptedEngine(saying(text), **settings)


@dataclass
class Server:
    runtime: Runtime
    settings: ServeSettings
    client: httpx.AsyncClient
    admin: httpx.AsyncClient
    stop: asyncio.Event
    ended: asyncio.Task[None]

    async def ready(self) -> None:
        """Wait until the pod says that it is ready."""
        async with asyncio.timeout(10):
            while True:
                if (await self.client.get("/ready")).status_code == 200:
                    return
                await asyncio.sleep(0.005)

    async def complete(self, **body) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"prompt": "Say hello", **body})

    async def chat(self, **body) -> httpx.Response:
        messages = [{"role": "user", "content": "Say hello"}]
        return await self.client.post("/v1/chat/completions", json={"messages": messages, **body})

    async def until(self, condition, seconds: float = 10.0) -> None:
        """Wait for a condition on the engine's last snapshot."""
        await eventually(lambda: condition(self.runtime.engine.snapshot.stats), seconds)


@contextlib.asynccontextmanager
async def an_api(engine: Backend | None = None, *, codec=None, **changes) -> AsyncIterator[Server]:
    """The same applications without sockets: much faster, but a client that goes away is not noticed."""
    settings = some_settings(**changes)
    backend = engine or an_engine()
    runtime = build(settings, codec or a_codec(), lambda: backend)
    await runtime.warm_up()
    client = httpx.AsyncClient(transport=httpx.ASGITransport(runtime.public), base_url="http://pod")
    admin = httpx.AsyncClient(transport=httpx.ASGITransport(runtime.admin), base_url="http://pod")
    async with client, admin:
        try:
            yield Server(
                runtime, settings, client, admin, asyncio.Event(), asyncio.create_task(asyncio.sleep(0))
            )
        finally:
            runtime.engine.stop(timeout=2)


@contextlib.asynccontextmanager
async def a_server(
    engine: Backend | None = None, *, wait=True, codec=None, load=None, **changes
) -> AsyncIterator[Server]:
    settings = some_settings(**changes)
    backend = engine or an_engine()
    runtime = build(settings, codec or a_codec(), load or (lambda: backend))
    stop = asyncio.Event()
    ended = asyncio.create_task(serve(settings, runtime, stop))
    base = f"http://127.0.0.1:{settings.port}"
    admin_base = f"http://127.0.0.1:{settings.admin_port}"
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(base_url=base, timeout=20, limits=limits) as client,
        httpx.AsyncClient(base_url=admin_base, timeout=20) as admin,
    ):
        server = Server(runtime, settings, client, admin, stop, ended)
        await _listening(settings.port, ended)
        if wait:
            await server.ready()
        try:
            yield server
        finally:
            runtime.drain.hasten()
            stop.set()
            with contextlib.suppress(Exception):
                await ended


async def _listening(port: int, ended: asyncio.Task[None]) -> None:
    async with asyncio.timeout(15):
        while True:
            if ended.done():
                raise RuntimeError("the server ended before it listened") from ended.exception()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.005)
            else:
                writer.close()
                await writer.wait_closed()
                return


def events_of(text: str) -> list[dict | str]:
    """The data of a stream's server-sent events; "[DONE]" as a string."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def text_of(events: list[dict | str], index: int = 0) -> str:
    """The joined text of one choice of a stream, of either endpoint."""
    choices = [choice for event in events if isinstance(event, dict) for choice in event.get("choices", [])]
    mine = [choice for choice in choices if choice["index"] == index]
    return "".join(
        choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in mine
    )

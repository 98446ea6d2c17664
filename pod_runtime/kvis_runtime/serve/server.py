"""Runs a runtime: two ports in one event loop, signals, and the way out.

Exit status: 0 after a drain, 1 when the engine or a port failed. Listening starts before the model is
loaded, so that probes get an answer at once. Signals are handled here and not by the HTTP server, because
the first SIGTERM must not close anything.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from kvis_kv import flags
from kvis_runtime.serve.connection import Connection
from kvis_runtime.serve.errors import ApiError
from kvis_runtime.serve.lifecycle import Phase
from kvis_runtime.serve.runtime import Runtime
from kvis_runtime.serve.settings import ServeSettings

KEEP_ALIVE_SECONDS: Final = 75  # longer than clients keep idle connections, so that they close first
FLUSH_SECONDS: Final = 2  # for last bytes when the process ends
BACKLOG: Final = 2048

logger = logging.getLogger(__name__)


class EngineFailedError(RuntimeError):
    """The engine broke while serving; the message says how."""


class ListenError(RuntimeError):
    """A port cannot be opened; the message names the flag."""


class _Port(uvicorn.Server):
    """One listening port without the server's own signal handling."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: ServeSettings, runtime: Runtime, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain.

    Raises EngineFailedError, ListenError, or what loading the model raised.
    """
    with contextlib.ExitStack() as sockets:
        public = sockets.enter_context(_listen(flags.PORT, settings.host, settings.port))
        admin = sockets.enter_context(_listen(flags.ADMIN_PORT, settings.host, settings.admin_port))
        sockets.pop_all()  # from here on the ports close them
    ports = [_port(runtime.public), _port(runtime.admin)]
    serving = [
        asyncio.create_task(port.serve([sock])) for port, sock in zip(ports, (public, admin), strict=True)
    ]
    logger.info("Listening on %s, ports %d and %d (admin)", settings.host, settings.port, settings.admin_port)
    try:
        await _live(runtime, stop)
    finally:
        for port in ports:
            port.should_exit = True
        await asyncio.gather(*serving)
        runtime.engine.stop(timeout=FLUSH_SECONDS)


async def _live(runtime: Runtime, stop: asyncio.Event) -> None:
    """Load, serve until a signal or the engine's end, drain."""
    stopping = asyncio.create_task(stop.wait())
    dying = asyncio.create_task(runtime.engine.died.wait())
    loading = asyncio.create_task(runtime.warm_up())
    try:
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            logger.info("Stopped before the model was loaded")
            return
        await _loaded(loading, runtime)
        logger.info("Ready")
        await asyncio.wait({stopping, dying}, return_when=asyncio.FIRST_COMPLETED)
        if not dying.done():
            draining = asyncio.create_task(runtime.drain.finish())
            await asyncio.wait({draining, dying}, return_when=asyncio.FIRST_COMPLETED)
            draining.cancel()
        if dying.done():
            runtime.lifecycle.advance(Phase.FAILED)
            raise _engine_failure(runtime)
    finally:
        for task in (stopping, dying, loading):
            task.cancel()


async def _loaded(loading: "asyncio.Task[None]", runtime: Runtime) -> None:
    try:
        await loading
    except ApiError as error:  # the model loaded, but the warm-up token failed
        raise _engine_failure(runtime) from error


def _engine_failure(runtime: Runtime) -> EngineFailedError:
    error = runtime.engine.failure
    return EngineFailedError(f"{type(error).__name__}: {error}")


def stop_on_signals(runtime: Runtime) -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal hastens the drain."""
    stop = asyncio.Event()

    def leave() -> None:
        if stop.is_set():
            runtime.drain.hasten()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    return stop


def _listen(flag: str, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ListenError(f"{flag}: cannot listen on {host}:{port}: {error.strerror or error}") from error


def _port(app: ASGIApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",  # its lines about starting and ending would appear once per port
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=FLUSH_SECONDS,
    )
    return _Port(config)

"""The gate: one ASGI middleware in front of whatever serves the OpenAI API.

It lets through only listed (method, path) pairs, bounds headers, bodies and the number of requests inside,
refuses while the pod cannot serve, and counts what is in flight, so that a drain knows when the last
response is complete. Bodies are read here in full, with a time limit, and handed on; the application behind
never sees a body above the limit. It knows nothing of models.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvis_runtime.serve.errors import ApiError, overloaded, respond
from kvis_runtime.serve.lifecycle import Lifecycle

MAX_BODY_BYTES: Final = 1 << 20
MAX_DISCARDED_BYTES: Final = 8 << 20  # of a body above the limit: a client still sending would miss the 413
MAX_HEADER_BYTES: Final = 16 << 10
BODY_SECONDS: Final = 30.0  # for the whole body; a client that trickles longer is cut off
MAX_RETRY_SECONDS: Final = 30

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Work inside: engine requests open, how many may be, and how many run at a time."""

    open: int
    limit: int
    running_limit: int


@dataclass(frozen=True, slots=True)
class Policy:
    """What may pass. `generation` are the paths whose requests count as work and are drained."""

    methods: Mapping[str, frozenset[str]]
    generation: frozenset[str]


class Gate:
    """ASGI middleware; `in_flight` is the number of generation requests that are not answered in full."""

    def __init__(
        self,
        app: ASGIApp,
        policy: Policy,
        lifecycle: Lifecycle,
        backlog: Callable[[], Backlog],
        *,
        on_rejected: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._policy = policy
        self._lifecycle = lifecycle
        self._backlog = backlog
        self._on_rejected = on_rejected
        self._emptied = asyncio.Event()
        self.in_flight = 0

    async def wait_until_empty(self) -> None:
        """Return when no generation request is in flight."""
        while self.in_flight:
            self._emptied.clear()
            await self._emptied.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return  # websockets are closed by the server when nobody accepts them
        guarded = _Sender(send, self._lifecycle)
        try:
            await self._pass_on(scope, receive, guarded)
        except ApiError as error:
            await respond(error)(scope, receive, guarded)
        except Exception:
            logger.exception("Request failed on a bug", extra={"path": scope["path"]})
            if guarded.started:
                raise  # the server cuts the connection, so the client sees a truncated answer as such
            await respond(ApiError(500, "Internal error."))(scope, receive, guarded)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check_route(scope)
        _check_headers(scope)
        if scope["path"] not in self._policy.generation:
            await self._app(scope, await _with_body(scope, receive), send)
            return
        self._check_room()
        self.in_flight += 1
        try:
            await self._app(scope, await _with_body(scope, receive), send)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._emptied.set()

    def _check_route(self, scope: Scope) -> None:
        methods = self._policy.methods.get(scope["path"])
        if methods is None:
            raise ApiError(404, f"There is no {scope['path']} here.", code="unknown_path")
        if scope["method"] not in methods:
            allowed = ", ".join(sorted(methods))
            message = f"{scope['path']} takes {allowed}, not {scope['method']}."
            raise ApiError(405, message, code="method_not_allowed", headers={"Allow": allowed})

    def _check_room(self) -> None:
        refusal = self._lifecycle.refusal()
        if refusal is not None:
            raise refusal
        backlog = self._backlog()
        inside = max(backlog.open, self.in_flight)
        if inside >= backlog.limit:
            self._on_rejected()
            message = f"{inside} requests wait or run here and at most {backlog.limit} may; try again later."
            raise overloaded(message, retry_after_seconds=_retry_after(inside, backlog.running_limit))


class _Sender:
    """Passes messages on; asks clients to close the connection while the pod leaves."""

    __slots__ = ("_lifecycle", "_send", "started")

    def __init__(self, send: Send, lifecycle: Lifecycle) -> None:
        self._send = send
        self._lifecycle = lifecycle
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = message.get("headers", [])
            if self._lifecycle.is_draining and not any(name.lower() == b"connection" for name, _ in headers):
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
        await self._send(message)


def _check_headers(scope: Scope) -> None:
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if size > MAX_HEADER_BYTES:
        message = f"The headers hold {size} bytes; at most {MAX_HEADER_BYTES} are allowed."
        raise ApiError(431, message, code="headers_too_large", headers={"Connection": "close"})


async def _with_body(scope: Scope, receive: Receive) -> Receive:
    """Read the body and return a receive that gives it back, then goes on with the client's messages."""
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"0")
    waits_for_leave = headers.get(b"expect", b"").lower() == b"100-continue"
    if waits_for_leave and declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise _body_too_large()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _read_body(receive)
    except TimeoutError as error:
        message = f"The body did not arrive within {BODY_SECONDS:.0f} seconds."
        raise ApiError(408, message, code="body_timeout", headers={"Connection": "close"}) from error
    replay: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return replay.pop() if replay else await receive()

    return receive_again


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    size = 0
    more = True
    while more and size <= MAX_DISCARDED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(
                400, "The client went away before its body was complete.", code="client_disconnected"
            )
        piece = message.get("body", b"")
        size += len(piece)
        if size <= MAX_BODY_BYTES:
            body += piece
        more = message.get("more_body", False)
    if size > MAX_BODY_BYTES:
        raise _body_too_large()
    return bytes(body)


def _body_too_large() -> ApiError:
    # Part of the body may be unread, so the connection cannot be used again.
    message = f"The body is larger than {MAX_BODY_BYTES} bytes."
    return ApiError(413, message, code="body_too_large", headers={"Connection": "close"})


def _retry_after(inside: int, running_limit: int) -> int:
    """Return seconds that grow with the backlog, spread so that clients do not come back at once."""
    rounds = min(MAX_RETRY_SECONDS, 1 + inside // max(1, running_limit))
    return rounds + random.randint(0, rounds // 2)

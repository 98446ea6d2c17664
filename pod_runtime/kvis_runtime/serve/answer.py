"""Sends a generation to its client, as a stream or whole, and stops it when the client goes away.

The status line waits for the first text: until then a failing or leaving pod can still answer 503, which a
client may retry elsewhere. After it a failure is one error event and no [DONE].
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kvis_runtime.serve.errors import ApiError, respond
from kvis_runtime.serve.generation import Delta, Generation
from kvis_runtime.serve.shapes import (
    DONE,
    FinishedChoice,
    Shape,
    chunk_frame,
    encode,
    frame,
    usage_frame,
    whole_answer,
)

STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies must pass each event on at once
]


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """Answers with one JSON object when every choice has ended."""

    generation: Generation
    shape: Shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        await while_connected(receive, self._answer(scope, receive, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        texts: dict[int, list[str]] = {}
        reasons: dict[int, str] = {}
        try:
            async with aclosing(self.generation.deltas()) as batches:
                async for delta in _each(batches):
                    texts.setdefault(delta.index, []).append(delta.text)
                    if delta.finish_reason is not None:
                        reasons[delta.index] = delta.finish_reason
        except ApiError as error:
            await respond(error)(scope, receive, send)
            return
        choices = [FinishedChoice(index, "".join(texts[index]), reasons[index]) for index in sorted(texts)]
        body = whole_answer(self.shape, choices, self.generation.usage())
        await Response(encode(body), media_type="application/json")(scope, receive, send)


@dataclass(slots=True)
class StreamedAnswer:
    """Answers with server-sent events, all that a step brought in one write."""

    generation: Generation
    shape: Shape
    usage_chunk: bool
    _started: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run as an ASGI application."""
        await while_connected(receive, self._answer(scope, receive, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self.generation.deltas()) as batches:
                async for deltas in batches:
                    await self._send(send, b"".join(self._frames(deltas)), last=False)
        except ApiError as error:
            if self._started:
                await self._send(send, frame(error.body()), last=True)
            else:
                await respond(error)(scope, receive, send)
            return
        usage = usage_frame(self.shape, self.generation.usage()) if self.usage_chunk else b""
        await self._send(send, usage + DONE, last=True)

    def _frames(self, deltas: list[Delta]) -> list[bytes]:
        choices = [
            self.shape.chunk(delta) for delta in deltas if delta.text or delta.finish_reason is not None
        ]
        if choices and not self._started:
            openings = (self.shape.opening(plan.index) for plan in self.generation.plans)
            choices = [opening for opening in openings if opening is not None] + choices
        return [chunk_frame(self.shape, choice, usage_follows=self.usage_chunk) for choice in choices]

    async def _send(self, send: Send, body: bytes, *, last: bool) -> None:
        if not body and not last:
            return
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await send({"type": "http.response.body", "body": body, "more_body": not last})


async def while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, and cancel it when the client disconnects. The request's body must have been read."""
    running = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (running, watching):
            if not task.done():
                task.cancel()
        await asyncio.wait({running, watching})
    if not running.cancelled():
        running.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _each(batches: AsyncIterator[list[Delta]]) -> AsyncIterator[Delta]:
    async for batch in batches:
        for item in batch:
            yield item

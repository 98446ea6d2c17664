"""Mailboxes between the engine's thread and the HTTP calls, used on the event loop only.

A `Ticket` belongs to one HTTP call, which may stand for several engine requests (n > 1, several prompts). A
slow reader finds all that came meanwhile in one `take`, so nothing is queued per token.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from kvis_runtime.engine.request import Output
from kvis_runtime.serve.errors import ApiError


class Arrival(NamedTuple):
    """An output and when its step ended, in seconds of the monotonic clock."""

    at: float
    output: Output


class Ticket:
    """Mailbox of one HTTP call. It ends with the last output of its requests or with one ApiError."""

    __slots__ = ("_error", "_pending", "_wake", "request_ids")

    def __init__(self, request_ids: Sequence[str]) -> None:
        self.request_ids = tuple(request_ids)
        self._pending: list[Arrival] = []
        self._error: ApiError | None = None
        self._wake = asyncio.Event()

    async def take(self) -> list[Arrival]:
        """Wait for outputs and return all that came; raise the ApiError that ended the call."""
        while not self._pending:
            if self._error is not None:
                raise self._error
            self._wake.clear()
            await self._wake.wait()
        taken, self._pending = self._pending, []
        return taken

    def put(self, arrival: Arrival) -> None:
        """Add one output."""
        self._pending.append(arrival)
        self._wake.set()

    def fail(self, error: ApiError) -> None:
        """End the call after the outputs that are already here; the first error stands."""
        self._error = self._error or error
        self._wake.set()

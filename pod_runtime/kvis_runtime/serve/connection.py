"""One HTTP connection that does not wait for ever: the HTTP server bounds only the pause between requests.

A client that opens connections and says nothing, or trickles the head of a request byte by byte, would hold
each for as long as it likes. Bodies are the gate's business.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Connection(H11Protocol):
    """Closes itself when no request begins, or a begun head is not complete, in time."""

    silence_seconds: ClassVar[float] = 75.0
    """From the opening to the first byte."""
    head_seconds: ClassVar[float] = 10.0
    """From the first byte of a request's head to the last."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the parent
        """Expect a first byte."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.silence_seconds, transport.close)

    def data_received(self, data: bytes) -> None:
        """Expect the rest of the head when these bytes began one."""
        begins = not self._is_amid_head()
        super().data_received(data)
        if begins or not self._is_amid_head():
            self._forget_deadline()
        if begins and self._is_amid_head():
            self._deadline = self.loop.call_later(self.head_seconds, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._forget_deadline()
        super().connection_lost(exc)

    def _is_amid_head(self) -> bool:
        """Whether bytes have come that are no request yet, and none is being answered."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return bool(self.conn.trailing_data[0]) and not is_answering

    def _give_up(self) -> None:
        self.transport.write(TOO_SLOW)
        self.transport.close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

"""How the pod leaves: nothing that was accepted is lost.

1. unready at once, but still serving: endpoint lists take seconds to drop the pod (`propagation`);
2. then new requests get 503 with Connection: close, those in flight go on;
3. when none is left, or the time is up, the rest gets an explicit error, and the process can end.

All of it fits into `timeout` seconds. A second signal hastens: the pauses end and what is in flight is cut
off, still with its error.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from kvis_runtime.serve.engine_thread import EngineThread
from kvis_runtime.serve.gate import Gate
from kvis_runtime.serve.lifecycle import Lifecycle, Phase, shutting_down

LAST_WORDS_SECONDS: Final = 2.0  # for the error frames of the cut-off requests to be sent

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """Seconds: of the pause before refusing, and of the whole drain, the pause included."""

    propagation: float
    timeout: float


class Drain:
    """The pod's one drain. `begin` and `hasten` may be called at any time, in any number."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        gate: Gate,
        engine: EngineThread,
        times: DrainTimes,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lifecycle = lifecycle
        self._gate = gate
        self._engine = engine
        self._times = times
        self._clock = clock
        self._hastened = asyncio.Event()
        self._refusing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Become unready now, and refuse new requests after the pause."""
        if self._refusing is None:
            self._lifecycle.advance(Phase.LEAVING)
            self._refusing = asyncio.get_running_loop().create_task(self._refuse_after_pause())
            logger.info("Began to drain with %d requests in flight", self._gate.in_flight)

    def hasten(self) -> None:
        """End the pauses and cut off what is in flight."""
        self._hastened.set()

    async def finish(self) -> int:
        """Drain to the end; returns how many requests had to be cut off."""
        deadline = self._clock() + self._times.timeout
        self.begin()
        assert self._refusing is not None
        await self._refusing
        await self._until(self._gate.wait_until_empty(), deadline - self._clock())
        left = self._gate.in_flight
        if left:
            self._engine.close(shutting_down())
            await _at_most(self._gate.wait_until_empty(), LAST_WORDS_SECONDS)
        logger.info("Drained; cut off %d requests", left)
        return left

    async def _refuse_after_pause(self) -> None:
        await _at_most(self._hastened.wait(), min(self._times.propagation, self._times.timeout))
        self._lifecycle.advance(Phase.REFUSING)

    async def _until(self, done: Coroutine[Any, Any, None], seconds: float) -> None:
        """Wait for `done`, the deadline or a hastening, whichever comes first."""
        waits = {asyncio.ensure_future(done), asyncio.ensure_future(self._hastened.wait())}
        await asyncio.wait(waits, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)


async def _at_most(done: Coroutine[Any, Any, object], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await done
    except TimeoutError:
        return

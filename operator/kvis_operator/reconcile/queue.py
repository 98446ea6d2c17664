"""Which service to look at next: one pass at a time per service, many services side by side.

Level-based: a key in the queue says "look", never "this happened". A wake during a pass makes one more pass
follow. A pass answers with the seconds until the next look; a failed one is tried again with growing,
jittered, capped delay, which a change of the service's own spec resets. Only the leader runs it.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kvis_operator.cluster.client import KubeError, UnreachableError
from kvis_operator.cluster.fence import FenceClosedError
from kvis_operator.observe.cluster import Key

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 60.0
JITTER = 0.2
STUBBORN = 3
"""Failed passes in a row, of any kind, from which on an object that changed meanwhile counts as an error too."""

EXPECTED = (KubeError, UnreachableError, FenceClosedError)
"""The world's faults, told in a line; anything else is ours and is told with its traceback."""

Pass = Callable[[Key], Awaitable[float | None]]
"""One look at one service; answers with the seconds to the next one, None for none until something wakes
it.
"""


@dataclass(slots=True)
class Entry:
    due_at: float | None = None  # monotonic; when to look next
    running: bool = False
    failures: int = 0
    waiting_since: float | None = None  # monotonic; since when it is overdue or being looked at


class WorkQueue:
    def __init__(
        self,
        look: Pass,
        *,
        workers: int = 16,
        errors: Counter[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._look = look
        self._slots = asyncio.Semaphore(workers)
        self._clock = clock
        self._jitter = jitter
        self._entries: dict[Key, Entry] = {}
        self._changed = asyncio.Event()
        self._passes: set[asyncio.Task[None]] = set()
        self._is_running = False
        self._errors = Counter() if errors is None else errors

    def wake(self, key: Key, *, after: float = 0.0, fresh: bool = False) -> None:
        """Look at `key` in `after` seconds at the latest.

        `fresh`: its spec changed, forget earlier failures. While the queue does not run, nothing is
        remembered: whoever starts it wakes every key.
        """
        if not self._is_running:
            return
        entry = self._entries.setdefault(key, Entry())
        if fresh:
            entry.failures = 0
        elif entry.failures and entry.due_at is not None:
            return  # it will be tried again when its delay is over; events must not turn it into a hot loop
        due_at = self._clock() + after
        entry.due_at = due_at if entry.due_at is None else min(entry.due_at, due_at)
        self._changed.set()

    @property
    def depth(self) -> int:
        now = self._clock()
        return sum(e.running or (e.due_at is not None and e.due_at <= now) for e in self._entries.values())

    def oldest_seconds(self) -> float:
        """How long the most overdue key has been waiting, or its pass running: what liveness looks at."""
        now = self._clock()
        ages = [now - e.waiting_since for e in self._entries.values() if e.waiting_since is not None]
        ages += [now - e.due_at for e in self._entries.values() if e.due_at is not None and not e.running]
        return max([0.0, *ages])

    async def run(self) -> None:
        """Until cancelled; passes under way are then cancelled too and waited for."""
        self._is_running = True
        try:
            while True:
                self._changed.clear()
                self._start_due()
                try:
                    async with asyncio.timeout(self._until_next()):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            self._is_running = False
            for task in self._passes:
                task.cancel()
            await asyncio.gather(*self._passes, return_exceptions=True)
            self._entries.clear()

    def _start_due(self) -> None:
        now = self._clock()
        for key, entry in self._entries.items():
            if entry.due_at is not None and entry.due_at <= now and not entry.running:
                entry.due_at, entry.running, entry.waiting_since = None, True, now
                task = asyncio.create_task(self._one(key, entry))
                self._passes.add(task)
                task.add_done_callback(self._passes.discard)

    def _until_next(self) -> float | None:
        now = self._clock()
        due = [e.due_at for e in self._entries.values() if e.due_at is not None and not e.running]
        return max(0.0, min(due) - now) if due else None

    async def _one(self, key: Key, entry: Entry) -> None:
        after: float | None = None
        try:
            async with self._slots:
                after = await self._look(key)
            entry.failures = 0
        except Exception as error:  # noqa: BLE001 - whatever it is, the other services go on
            entry.failures += 1
            after = self._retry_seconds(entry.failures)
            self._tell(key, error, entry.failures, after)
        finally:
            entry.running, entry.waiting_since = False, None
            self._changed.set()
        if after is None and entry.due_at is None:
            self._entries.pop(key, None)  # nothing there to look at any more; a wake brings it back
        if after is not None and self._entries.get(key) is entry:
            due_at = self._clock() + after
            # A wake during a failed pass must not cut the delay short; during a good one it must.
            keep = entry.due_at is not None and not entry.failures
            entry.due_at = min(entry.due_at or due_at, due_at) if keep else due_at

    def _tell(self, key: Key, error: Exception, failures: int, after: float) -> None:
        details = {"service": str(key), "retry_seconds": round(after, 1), "error": str(error)}
        if isinstance(error, KubeError) and error.is_conflict and failures < STUBBORN:
            logger.info("Changed meanwhile, looking again", extra=details)
            return
        self._errors[type(error).__name__] += 1
        if isinstance(error, EXPECTED):
            logger.warning("Failed to reconcile", extra=details)
        else:
            logger.error("Failed to reconcile", extra=details, exc_info=error)

    def _retry_seconds(self, failures: int) -> float:
        delay = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 10))
        return delay * (1 - JITTER * self._jitter())

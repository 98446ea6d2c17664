"""The fence: whether this process may write at this moment.

A lease is only a promise about the past. The fence turns it into a yes or no before every write: it counts by
the monotonic clock, which no step of the wall clock moves, from just before the last renewal was *sent*.
`lease.py` renews and revokes it; `client.py` asks it. Without the lease it says no.
"""

import time
from collections.abc import Callable

SAFETY_SECONDS = 1.0
"""A write must be over this long before the lease could be another's."""


class FenceClosedError(Exception):
    """This process does not hold the lease, or not for long enough to write anything."""


class Fence:
    def __init__(self, *, lease_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._renewed_at: float | None = None

    def now(self) -> float:
        """Monotonic seconds; to be read before a renewal is sent."""
        return self._clock()

    def renew(self, sent_at: float) -> None:
        """Open the fence for one lease from `sent_at`. A revoked fence opens again only by a new renewal."""
        self._renewed_at = sent_at

    def revoke(self) -> None:
        self._renewed_at = None

    @property
    def remaining_seconds(self) -> float:
        """How long the lease is still ours; 0 when it is not."""
        if self._renewed_at is None:
            return 0.0
        return max(0.0, self._renewed_at + self._lease_seconds - self._clock())

    def budget(self, wanted_seconds: float) -> float:
        """The time a write may take: as asked, cut to the lease. FenceClosedError when none is left."""
        left = self.remaining_seconds - SAFETY_SECONDS
        if left <= 0:
            raise FenceClosedError("The lease is not held for long enough to write")
        return min(wanted_seconds, left)

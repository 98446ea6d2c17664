"""Flap budget: changes of direction are what users pay for, so their number is limited, not only their rate.

Growing again within half a demand memory of shrinking means that demand was remembered for too short a time: the
memory doubles, up to 4 hours. So do more than 2 reversals within an hour. It halves after 6 quiet hours (reference
H5.5). Growing later is no regret: the replica was spared for about as long as it had been kept in case. A memory
that the user gave is not lengthened.
"""

from dataclasses import dataclass, replace
from typing import Final

WINDOW_SECONDS: Final = 3600.0
BUDGET: Final = 2
QUIET_SECONDS: Final = 6 * 3600.0
LARGEST_FACTOR: Final = 64
REGRETTED: Final = 0.5  # of the demand memory; all of it paid for hours that saved no reversal


@dataclass(frozen=True, slots=True)
class FlapGuard:
    direction: int = 0  # of the last change: +1, -1; 0 before any
    moved_at: float | None = None  # when that was
    reversals: tuple[float, ...] = ()  # Unix seconds, newest last, within the window
    factor: int = 1  # on the demand memory
    eased_at: float | None = None  # last time the factor changed, or a reversal happened

    def changed(self, direction: int, *, now: float, memory: float) -> "FlapGuard":
        """After a change of replicas up (+1) or down (-1). `memory` is the demand memory without the guard, seconds."""
        if self.direction in (0, direction):
            return replace(self, direction=direction, moved_at=now)
        regretted = direction > 0 and self.moved_at is not None and now - self.moved_at <= REGRETTED * memory
        recent = (*[at for at in self.reversals if at > now - WINDOW_SECONDS], now)
        if regretted or len(recent) > BUDGET:
            return FlapGuard(direction, now, (), min(LARGEST_FACTOR, self.factor * 2), now)
        return FlapGuard(direction, now, recent, self.factor, now)

    def eased(self, *, now: float) -> "FlapGuard":
        """With the factor halved if the last 6 hours were quiet."""
        if self.factor == 1 or self.eased_at is None or now - self.eased_at < QUIET_SECONDS:
            return self
        return replace(self, factor=self.factor // 2, eased_at=now)

    def memory(self, seconds: float, longest: float) -> float:
        """The demand memory with the guard applied; never shorter than `seconds`."""
        return max(seconds, min(longest, seconds * self.factor))

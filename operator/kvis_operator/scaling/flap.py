"""Flap budget: changes of direction are what users pay for, so their number is limited, not only their rate.

More than 2 reversals within an hour double the demand memory, up to 4 hours; it halves after 6 quiet hours (H5.5).
"""

from dataclasses import dataclass, replace
from typing import Final

WINDOW_SECONDS: Final = 3600.0
BUDGET: Final = 2
QUIET_SECONDS: Final = 6 * 3600.0
LARGEST_FACTOR: Final = 64


@dataclass(frozen=True, slots=True)
class FlapGuard:
    direction: int = 0  # of the last change: +1, -1; 0 before any
    reversals: tuple[float, ...] = ()  # Unix seconds, newest last, within the window
    factor: int = 1  # on the demand memory
    eased_at: float | None = None  # last time the factor changed, or a reversal happened

    def changed(self, direction: int, *, now: float) -> "FlapGuard":
        """After a change of replicas up (+1) or down (-1)."""
        if self.direction in (0, direction):
            return replace(self, direction=direction)
        recent = (*[at for at in self.reversals if at > now - WINDOW_SECONDS], now)
        if len(recent) > BUDGET:
            return FlapGuard(direction, (), min(LARGEST_FACTOR, self.factor * 2), now)
        return FlapGuard(direction, recent, self.factor, now)

    def eased(self, *, now: float) -> "FlapGuard":
        """With the factor halved if the last 6 hours were quiet."""
        if self.factor == 1 or self.eased_at is None or now - self.eased_at < QUIET_SECONDS:
            return self
        return replace(self, factor=self.factor // 2, eased_at=now)

    def memory(self, seconds: float, longest: float) -> float:
        """The demand memory with the guard applied; never shorter than `seconds`."""
        return max(seconds, min(longest, seconds * self.factor))

"""How much the request rate of one minute differs from that of the next, for no lasting reason.

Counting alone spreads a rate by its square root; real traffic spreads more. Differences between minutes of a kind
measure that without being fooled by a level that moves, since a move shows in few of them (von Neumann's mean square
successive difference: half of it estimates the variance). They are taken two minutes apart, because a minute that lies
across a change shares half of it with the next. A fleet that could not carry the usual spread would be asked to grow
again within minutes of shrinking.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

MINUTE: Final = 60.0
MINUTES: Final = 10  # whose mean is the level
SIGMAS: Final = 5.0  # of spread; with 4 a simulated day of 20 % noise about a constant load moved replicas
PRIOR_MINUTES: Final = 3.0  # that counting noise, which is what to expect, weighs
FORGETTING: Final = 0.99  # per minute: a memory of an hour and a half
OUTLIER: Final = 3.0  # usual deviations that a difference counts as at most: a step of the load is no spread
LARGEST: Final = 1.0  # relative standard deviation
FEWEST_REQUESTS: Final = 0.01  # a minute; fewer have no spread that could be told
LONGEST_GAP_SECONDS: Final = 180.0  # between two minutes that are still neighbours


@dataclass(frozen=True, slots=True)
class RateSpread:
    """The rates of the last minutes, newest last, and the weighted sum of their squared relative differences."""

    minutes: tuple[float, ...] = ()  # requests/s
    at: float | None = None  # Unix seconds, end of the newest minute
    squares: float = 0.0
    weight: float = 0.0

    def seen(self, rate: float | None, *, now: float) -> "RateSpread":
        """With the rate of the minute that ends now; within a minute of the last one nothing changes."""
        if rate is None or (self.at is not None and 0 <= now - self.at < MINUTE):
            return self
        if not self.minutes or self.at is None or not 0 < now - self.at <= LONGEST_GAP_SECONDS:
            return replace(self, minutes=(rate,), at=now)
        minutes = (*self.minutes, rate)[-MINUTES:]
        before = minutes[-3] if len(minutes) > 2 else rate
        middle = (before + rate) / 2
        if len(minutes) < 3 or middle <= 0:
            return replace(self, minutes=minutes, at=now)
        square = ((rate - before) / middle) ** 2 / 2
        usual = self._variance(middle)
        square = min(square, OUTLIER**2 * usual, LARGEST**2)
        return RateSpread(minutes, now, FORGETTING * self.squares + square, FORGETTING * self.weight + 1.0)

    def _variance(self, level: float) -> float:
        """Relative variance of a minute's rate around `level` > 0."""
        counting = 1.0 / max(MINUTE * level, FEWEST_REQUESTS)
        return (PRIOR_MINUTES * counting + self.squares) / (PRIOR_MINUTES + self.weight)

    def level(self, memory: float) -> float | None:
        """Mean rate, requests/s, of the last minutes within `memory` seconds; None where that is not even one."""
        minutes = self.minutes[-int(memory / MINUTE) :] if memory >= MINUTE else ()
        return sum(minutes) / len(minutes) if minutes else None

    def usual_peak(self, memory: float, sigmas: float = SIGMAS) -> float | None:
        """The rate that a minute at this level hardly ever exceeds: as measured, at least half of counting noise.

        Half, because a rate that rests on few requests is averaged over more than a minute. `sigmas` is how many
        deviations above its level the peak is.
        """
        if (level := self.level(memory)) is None:
            return None
        if level <= 0:
            return 0.0
        half_counting = 0.5 / max(MINUTE * level, FEWEST_REQUESTS)
        return level * (1.0 + sigmas * math.sqrt(max(self._variance(level), half_counting)))

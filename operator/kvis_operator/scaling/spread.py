"""How much the request rate of one minute differs from that of the next, for no lasting reason.

Counting alone spreads a rate by its square root; real traffic spreads more. Differences between minutes of a kind
measure that without being fooled by a level that moves, since a move shows in few of them (von Neumann's mean square
successive difference: half of it estimates the variance). They are taken two minutes apart, because a minute that lies
across a change shares half of it with the next. A fleet that could not carry the usual spread would be asked to grow
again within minutes of shrinking. Nor is a lull a lower level: until the last minutes lie below the mean of the last
hours by more than chance would have it, that mean counts.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

MINUTE: Final = 60.0
MINUTES: Final = 10  # whose mean is the level
SIGMAS: Final = 4.5  # of spread; with 4 a simulated day of 20 % noise about a constant load moved replicas
PRIOR_MINUTES: Final = 3.0  # that counting noise, which is what to expect, weighs
FORGETTING: Final = 0.99  # per minute: a memory of an hour and a half
OUTLIER: Final = 3.0  # usual deviations that a difference counts as at most: a step of the load is no spread
LULL: Final = (2.0, 4.0)  # deviations below the long mean: a level begins to count, counts alone
LARGEST: Final = 1.0  # relative standard deviation
FEWEST_REQUESTS: Final = 0.01  # a minute; fewer have no spread that could be told


@dataclass(frozen=True, slots=True)
class RateSpread:
    """The rates of the last minutes, newest last, and weighted sums of all of them and their squared differences."""

    minutes: tuple[float, ...] = ()  # requests/s
    at: float | None = None  # Unix seconds, end of the newest minute
    squares: float = 0.0  # of relative differences
    weight: float = 0.0
    rates: float = 0.0  # requests/s
    since: float | None = None  # Unix seconds, since when the rate has been known without a break

    def seen(self, rate: float | None, *, now: float) -> "RateSpread":
        """With the last minute's rate at `now`; within a minute of the last one kept no other is.

        A minute that was not seen in full, the rate being unknown or the operator away, counts like the higher of its
        neighbours and spreads at least as usual: unknown is no calm.
        """
        if rate is None:
            return replace(self, since=None)
        if self.at is None or now < self.at:
            return replace(self, minutes=(rate,), at=now, since=now)
        passed = int((now - self.at) / MINUTE)
        away = passed > 1 and self.since is not None and self.since <= self.at
        since = now if away or self.since is None else min(now, self.since)
        known = replace(self, since=since)
        if passed < 1 or now - since < MINUTE:
            return known
        for _ in range(min(passed - 1, MINUTES)):
            known = known._with(max((*self.minutes[-1:], rate)), least=1.0)
        return replace(known._with(rate), at=now)

    def _with(self, rate: float, least: float = 0.0) -> "RateSpread":
        """With one more minute, whose difference counts as at least `least` usual ones."""
        minutes = (*self.minutes, rate)[-MINUTES:]
        before = minutes[-3] if len(minutes) > 2 else rate
        middle = (before + rate) / 2
        if len(minutes) < 3 or middle <= 0:  # an idle minute has no spread, yet it lowers the long mean
            return replace(self, minutes=minutes, rates=FORGETTING * self.rates)
        square = ((rate - before) / middle) ** 2 / 2
        usual = self._variance(middle)
        square = min(max(square, least * usual), OUTLIER**2 * usual, LARGEST**2)
        squares, weight = FORGETTING * self.squares + square, FORGETTING * self.weight + 1.0
        rates = FORGETTING * self.rates + rate
        return replace(self, minutes=minutes, squares=squares, weight=weight, rates=rates)

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
        deviations above its level the peak is. A memory shorter than the level's minutes gets no long mean.
        """
        if (level := self.level(memory)) is None:
            return None
        if level <= 0:
            return 0.0
        if memory >= MINUTES * MINUTE:
            level = self._without_lull(level)
        return level * (1.0 + sigmas * self._deviation(level))

    def _without_lull(self, level: float) -> float:
        """The level of all minutes kept, or the long mean as far as the level may be below it by chance."""
        usual = self.rates / self.weight if self.weight else 0.0
        if usual <= level:
            return level
        below = (1.0 - level / usual) * math.sqrt(len(self.minutes)) / self._deviation(usual)
        begins, alone = LULL
        share = min(1.0, max(0.0, (below - begins) / (alone - begins)))
        return usual + share * (level - usual)

    def _deviation(self, level: float) -> float:
        """Relative standard deviation of a minute's rate around `level` > 0, at least half of counting noise."""
        half_counting = 0.5 / max(MINUTE * level, FEWEST_REQUESTS)
        return math.sqrt(max(self._variance(level), half_counting))

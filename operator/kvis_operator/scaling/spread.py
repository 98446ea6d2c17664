"""How much the request rate of one minute differs from that of the next, for no lasting reason.

Counting alone spreads a rate by its square root; real traffic spreads more. Differences between minutes of a kind
measure that without being fooled by a level that moves, since a move shows in few of them (von Neumann's mean square
successive difference: half of it estimates the variance). They are taken two minutes apart, because a minute that lies
across a change shares half of it with the next. A fleet that could not carry the usual spread would be asked to grow
again within minutes of shrinking. Nor is a lull a lower level: until the last minutes lie below the mean of the last
hour by more than chance would have it, that mean counts. So it is with what a replica carries, which moves with the
requests of the last minutes. And a minute that the usual spread explains is no rise of the load.

Chance brings everything at last wherever a load stands still for hours: a deep lull, a rare peak, a spread that looks
small. So the longer it has stood, the more deviations both the peak and a lull take; and more while a load is new,
known for too few minutes to say how it spreads. One that has moved is believed, and so is one whose past got lost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

MINUTE: Final = 60.0
MINUTES: Final = 10  # whose mean is the level
SIGMAS: Final = 4.3  # of spread above the level; with 4.0, noise about a constant load moved replicas
PRIOR_MINUTES: Final = 3.0  # that counting noise, which is what to expect, weighs
FORGETTING: Final = 0.995  # of the spread, per minute: a memory of three hours
LONG: Final = 0.98  # the same of the long means, which must follow a load that moves: fifty minutes
OUTLIER: Final = 3.0  # usual deviations that a difference counts as at most: a step of the load is no spread
LULL: Final = (2.0, 4.0)  # deviations below the long mean: a level begins to count, counts alone
CALM: Final = 60.0  # minutes without a change of the load, from which on all these deviations get more
LONGEST_CALM: Final = 480.0  # minutes, from which on they get no more
PER_DOUBLING: Final = 0.15  # of them, for every doubling of the calm: 1.45 times as many in the end
NEW: Final = 1.2  # of them more for a new load of which nothing is known yet; 1.4 costs azure-conv 5 %
KNOWN: Final = 120.0  # minutes that a spread weighs, three hours of them, from which on no load is new
NEW_SECONDS: Final = 600.0  # that replicas have served at most when the rate of a new load is first known
RISE: Final = 2.0  # deviations above the long mean: a level has risen
ESTABLISHED: Final = 20.0  # minutes' weight of a long mean that says what is usual
LARGEST: Final = 1.0  # relative standard deviation
FEWEST_REQUESTS: Final = 0.01  # a minute; fewer have no spread that could be told


@dataclass(frozen=True, slots=True)
class RateSpread:
    """The rates of the last minutes, newest last, and weighted sums of all of them and their squared differences."""

    minutes: tuple[float, ...] = ()  # requests/s
    at: float | None = None  # Unix seconds, end of the newest minute
    squares: float = 0.0  # of relative differences
    weight: float = 0.0  # of the squares, minutes
    rates: float = 0.0  # requests/s
    needs: float = 0.0  # replicas at full load that the rates took
    count: float = 0.0  # of the rates and needs, minutes
    calm: float = 0.0  # minutes since the level was last off the long mean by more than chance explains
    new: bool = False  # seen since its service began, and not off the long mean since
    since: float | None = None  # Unix seconds, since when the rate has been known without a break

    def seen(
        self, rate: float | None, carried: float | None = None, *, served: float | None = None, now: float
    ) -> "RateSpread":
        """With the last minute's rate at `now`; within a minute of the last one kept no other is.

        `carried` is what one replica carries now, requests/s; None, unknown, counts as usual. `served` is for how many
        seconds the service has had replicas: a load first seen within ten minutes of them is new, and where
        that is unknown; any other has a past.

        A minute that was not seen in full, the rate being unknown or the operator away, counts like the higher of its
        neighbours and spreads at least as usual: unknown is no calm.
        """
        if rate is None:
            return replace(self, since=None)
        if self.at is None or now < self.at:
            begins = served is None or served <= NEW_SECONDS
            new = begins if self.at is None else self.new
            return replace(self, minutes=(rate,), at=now, since=now, new=new)
        passed = int((now - self.at) / MINUTE)
        away = passed > 1 and self.since is not None and self.since <= self.at
        since = now if away or self.since is None else min(now, self.since)
        known = replace(self, since=since)
        if passed < 1 or now - since < MINUTE:
            return known
        for _ in range(min(passed - 1, MINUTES)):
            known = known._with(max((*self.minutes[-1:], rate)), carried, least=1.0)
        return replace(known._with(rate, carried), at=now)

    def _with(self, rate: float, carried: float | None, least: float = 0.0) -> "RateSpread":
        """With one more minute, whose difference counts as at least `least` usual ones."""
        minutes = (*self.minutes, rate)[-MINUTES:]
        before = minutes[-3] if len(minutes) > 2 else rate
        middle = (before + rate) / 2
        if len(minutes) < 3 or middle <= 0:  # an idle minute has no spread, yet it lowers the long mean
            return replace(self, minutes=minutes, rates=LONG * self.rates, needs=LONG * self.needs)
        square = ((rate - before) / middle) ** 2 / 2
        usual = self._variance(middle)
        square = min(max(square, least * usual), OUTLIER**2 * usual, LARGEST**2)
        changed = self._changed(minutes)
        return replace(
            self,
            minutes=minutes,
            squares=FORGETTING * self.squares + square,
            weight=FORGETTING * self.weight + 1.0,
            rates=LONG * self.rates + rate,
            needs=LONG * self.needs + self._taken(rate, carried),
            count=LONG * self.count + 1.0,
            calm=0.0 if changed else min(LONGEST_CALM, self.calm + 1.0),
            new=self.new and not changed,
        )

    def _changed(self, minutes: tuple[float, ...]) -> bool:
        """Whether the level of `minutes` is off the long mean by more than chance explains, either way."""
        usual = self._usual()
        if usual is None or self.count < ESTABLISHED:
            return False
        return _beyond_chance(abs(self._above(usual, minutes)) / self._doubt()) >= 1.0

    def _doubt(self) -> float:
        """How many times the usual deviations count: more for a load that has stood still for long, or is new."""
        stood = math.log2(max(CALM, min(LONGEST_CALM, self.calm)) / CALM)
        unknown = max(0.0, 1.0 - self.weight / KNOWN) ** 2 if self.new else 0.0
        return 1.0 + NEW * unknown + PER_DOUBLING * stood

    def _usual(self) -> float | None:
        """The long mean, requests/s; None where nothing says it."""
        return self.rates / self.count if self.count and self.rates else None

    def _above(self, usual: float, minutes: Sequence[float]) -> float:
        """Deviations of a mean of so many minutes by which that of `minutes` lies above `usual`."""
        return (fmean(minutes) / usual - 1.0) * math.sqrt(len(minutes)) / self._deviation(usual)

    def _taken(self, rate: float, carried: float | None) -> float:
        """Replicas at full load that `rate` takes, the usual ones where it is unknown what one carries."""
        if carried is not None and carried > 0:
            return rate / carried
        return rate * self.needs / self.rates if self.rates else 0.0

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
        deviations above its level the peak is, of a load that moves. A memory shorter than the level's minutes gets
        no long mean.
        """
        if (level := self.level(memory)) is None:
            return None
        if level <= 0:
            return 0.0
        if memory >= MINUTES * MINUTE:
            level = self._without_lull(level)
        return level * (1.0 + sigmas * self._doubt() * self._deviation(level))

    def _without_lull(self, level: float) -> float:
        """The level of all minutes kept, or the long mean as far as the level may be below it by chance."""
        usual = self._usual()
        if usual is None or usual <= level:
            return level
        return usual + _beyond_chance(-self._above(usual, self.minutes) / self._doubt()) * (level - usual)

    def usually_carried(self, carried: float) -> float:
        """What one replica carries, requests/s: on the long mean, as far as `carried`, of now, may differ by chance.

        A mean over the requests of the last minutes differs by one over the square root of their number, their
        lengths being spread about as wide as their mean.
        """
        level = self.level(MINUTES * MINUTE)
        if not self.needs or not self.rates or not level or carried <= 0:
            return carried
        usual = self.rates / self.needs
        requests = max(1.0, MINUTES * MINUTE * level)
        apart = math.log(carried) - math.log(usual)
        share = _beyond_chance(abs(apart) * math.sqrt(requests))
        return carried if share >= 1.0 else usual * math.exp(share * apart)

    def explains(self, rate: float) -> bool:
        """Whether `rate` is one that the usual spread about an unmoved level brings up, known for long enough."""
        level, usual = self.level(MINUTES * MINUTE), self._usual()
        if not level or usual is None or self.count < ESTABLISHED:
            return False
        highest = max(usual, level) * (1.0 + SIGMAS * self._deviation(usual))
        return self._above(usual, self.minutes) < RISE and rate <= highest

    def _deviation(self, level: float) -> float:
        """Relative standard deviation of a minute's rate around `level` > 0, at least half of counting noise."""
        half_counting = 0.5 / max(MINUTE * level, FEWEST_REQUESTS)
        return math.sqrt(max(self._variance(level), half_counting))


def _beyond_chance(deviations: float) -> float:
    """How much a difference counts, 0-1: nothing while chance explains it."""
    begins, alone = LULL
    return min(1.0, max(0.0, (deviations - begins) / (alone - begins)))

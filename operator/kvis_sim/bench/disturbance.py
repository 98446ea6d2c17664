"""What a fault caused: the wanted replicas with it against those without it, for the same seed.

Both runs meet the same arrivals, so every difference between their levels is the fault's doing, directly
or later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvis_sim.bench.rows import Row
from kvis_sim.bench.search import Outcome
from kvis_sim.scenarios.catalogue import recipe_named
from kvis_sim.scenarios.faults import undisturbed

TICK_SECONDS = 15.0
HORIZON_SECONDS = 600.0  # after a fault's end: later differences are another history, not a reaction
Level = Sequence[tuple[float, int]]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Summed over seeds: replicas removed that would have stayed. Worst seed: replicas added, ticks until
    level again.
    """

    removed: int
    added: int
    recovery_ticks: int


def disturbance(outcomes: Mapping[str, Outcome], scenario: str) -> Disturbance:
    calm = {row.seed: row for row in outcomes[f"{undisturbed(scenario)}|ours"].rows}
    fault = recipe_named(scenario).faults[0]
    effects = [
        _compare(
            replicas_over_time(row), replicas_over_time(calm[row.seed]), start=fault.start, end=fault.end
        )
        for row in outcomes[f"{scenario}|ours"].rows
        if row.seed in calm
    ]
    return Disturbance(
        removed=sum(effect.removed for effect in effects),
        added=max((effect.added for effect in effects), default=0),
        recovery_ticks=max((effect.recovery_ticks for effect in effects), default=0),
    )


def replicas_over_time(row: Row) -> Level:
    return [(float(at), int(replicas)) for at, replicas, _ in row.extra["desired"]]


def _compare(disturbed: Level, calm: Level, *, start: float, end: float) -> Disturbance:
    added = last_difference = 0
    ticks = round((end + HORIZON_SECONDS - start) / TICK_SECONDS)
    for tick in range(ticks + 1):
        at = start + tick * TICK_SECONDS
        difference = _value(disturbed, at) - _value(calm, at)
        added = max(added, difference)
        if difference and at > end:
            last_difference = tick
    recovery = max(0, last_difference - round((end - start) / TICK_SECONDS))
    return Disturbance(_removed(disturbed, calm, start, end + HORIZON_SECONDS), added, recovery)


def _removed(disturbed: Level, calm: Level, start: float, end: float) -> int:
    """Replicas taken away below what the undisturbed run has; growing later than it is no removal."""
    return sum(
        max(0, min(before, _value(calm, at)) - after)
        for (_, before), (at, after) in pairwise(disturbed)
        if start <= at <= end and after < before
    )


def _value(level: Level, at: float) -> int:
    value = level[0][1] if level else 0
    for when, replicas in level:
        if when > at:
            break
        value = replicas
    return value

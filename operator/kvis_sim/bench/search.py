"""Finding each method's cheapest setting that reaches an attainment, and what it then costs on all seeds.

The axis of a family runs from its dearest to its cheapest value; attainment falls along it, apart from
noise, so a bisection on a few tuning seeds finds the edge. Edges are then confirmed on all seeds, the
cheapest first; one that falls short there steps back towards the dear end and queues again. One that
reaches the level steps on towards the cheap end while it does: the tuning seeds may be harder than most.
So do the edges that cost as much on the tuning seeds, and the cheapest of all of these is taken.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from kvis_sim.bench.methods import Method
from kvis_sim.bench.rows import Job, Row
from kvis_sim.bench.schedule import Question

CONFIRMED = 8  # settings at most that are run on all seeds and fall short
TIED = 1.05  # costs on two tuning seeds that are no farther apart say little about all seeds


@dataclass(frozen=True, slots=True)
class Seeds:
    tuning: tuple[int, ...]
    comparing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """`method` with `axis` set to each of `values`, dearest first."""

    method: Method
    axis: str
    values: tuple[float, ...]

    def at(self, index: int) -> Method:
        return self.method.at(**{self.axis: self.values[index]})


@dataclass(frozen=True, slots=True)
class Outcome:
    """A method on one scenario over seeds. `reached` says whether the mean attainment is at least `level`."""

    scenario: str
    method: str
    family: str
    rows: tuple[Row, ...]
    level: float | None = None
    level_name: str = "default"
    tried: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # label -> tuning cost, attainment

    @property
    def attainment(self) -> float:
        return fmean(row.attainment for row in self.rows)

    @property
    def replica_hours(self) -> float:
        return fmean(row.replica_hours for row in self.rows)

    @property
    def reached(self) -> bool:
        return self.level is None or self.attainment >= self.level


def at_setting(scenario: str, method: Method, seeds: Sequence[int]) -> Question[Outcome]:
    jobs = [Job(scenario, method, seed) for seed in seeds]
    rows = yield jobs
    return Outcome(scenario, method.label, method.family, tuple(rows[job] for job in jobs))


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a sweep stops reaching the level, on the tuning seeds; `index` is the last value that reaches it."""

    sweep: Sweep
    index: int
    replica_hours: float
    attainment: float
    tried: Mapping[str, tuple[float, float]]


def edge(scenario: str, sweep: Sweep, *, level: float, seeds: Sequence[int]) -> Question[Edge]:
    """By bisection. When nothing reaches the level, the value that attained most."""
    tried: dict[int, tuple[float, float]] = {}
    low, high = -1, len(sweep.values)
    while high - low > 1:
        middle = (low + high) // 2
        outcome = yield from at_setting(scenario, sweep.at(middle), seeds)
        tried[middle] = (outcome.replica_hours, outcome.attainment)
        low, high = (middle, high) if outcome.attainment >= level else (low, middle)
    index = low if low >= 0 else max(tried, key=lambda found: tried[found][1])
    labels = {sweep.at(found).label: values for found, values in sorted(tried.items())}
    return Edge(sweep, index, *tried[index], labels)


def cheapest(
    scenario: str, sweeps: Sequence[Sweep], *, level: float, level_name: str, seeds: Seeds
) -> Question[Outcome]:
    """The cheapest of the sweeps' edges that reaches the level, or the one that attains most, on all seeds."""
    edges = []
    for sweep in sweeps:
        edges.append((yield from edge(scenario, sweep, level=level, seeds=seeds.tuning)))
    tried = {label: values for found in edges for label, values in found.tried.items()}
    reached = [found for found in edges if found.attainment >= level]
    if not reached:
        best = max(edges, key=lambda found: found.attainment)
        outcome = yield from at_setting(scenario, best.sweep.at(best.index), seeds.comparing)
    else:
        outcome = yield from _confirmed(scenario, reached, level=level, seeds=seeds)
    return Outcome(scenario, outcome.method, outcome.family, outcome.rows, level, level_name, tried)


def _confirmed(scenario: str, edges: Sequence[Edge], *, level: float, seeds: Seeds) -> Question[Outcome]:
    """The cheapest setting that reaches the level on all seeds, or of those looked at the one that attains most."""
    queue = [(found.replica_hours, order, found.index) for order, found in enumerate(edges)]
    heapq.heapify(queue)
    looked_at: list[Outcome] = []
    best: Outcome | None = None
    limit = math.inf
    while queue and len(looked_at) < CONFIRMED and queue[0][0] <= limit:
        hours, order, index = heapq.heappop(queue)
        sweep = edges[order].sweep
        outcome = yield from at_setting(scenario, sweep.at(index), seeds.comparing)
        if outcome.attainment >= level:
            last = yield from _stepped_on(scenario, sweep, index, outcome, level=level, seeds=seeds.comparing)
            best = last if best is None else min(best, last, key=lambda each: each.replica_hours)
            limit = min(limit, TIED * hours)
            continue
        looked_at.append(outcome)
        if index > 0:
            dearer = yield from at_setting(scenario, sweep.at(index - 1), seeds.tuning)
            heapq.heappush(queue, (dearer.replica_hours, order, index - 1))
    return best or max(looked_at, key=lambda outcome: outcome.attainment)


def _stepped_on(
    scenario: str, sweep: Sweep, index: int, reached: Outcome, *, level: float, seeds: Sequence[int]
) -> Question[Outcome]:
    """The cheapest on all seeds of the settings from `index` on, in one run of those, that reach the level."""
    for further in range(index + 1, len(sweep.values)):
        outcome = yield from at_setting(scenario, sweep.at(further), seeds)
        if outcome.attainment < level:
            break
        reached = min(reached, outcome, key=lambda each: each.replica_hours)
    return reached

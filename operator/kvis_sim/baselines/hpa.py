"""The Horizontal Pod Autoscaler, v2 behaviour.

Source: kubernetes.io "Horizontal Pod Autoscaling" and
`pkg/controller/podautoscaler/{replica_calculator,horizontal}.go` (2026-08). Proportional rule with 10 %
tolerance; missing and unready pods damp a change and can only cancel it; the largest of several metrics
wins, and a metric without data blocks shrinking; downwards the maximum of the recommendations of the last
`down_window` seconds holds; upwards at most +100 % or +4 pods per 15 s, whichever is more.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kvis_sim.baselines.reading import FleetReading, PodReading
from kvis_sim.baselines.windows import Window

TOLERANCE = 0.1
SYNC_SECONDS = 15.0
UP_PODS = 4
UP_FACTOR = 2.0


def in_tolerance(ratio: float, tolerance: float = TOLERANCE) -> bool:
    return abs(ratio - 1.0) <= tolerance + 1e-12


@dataclass(frozen=True, slots=True)
class PodMetrics:
    """A per-pod metric as the controller groups it: values of ready pods, names of the others."""

    values: Mapping[str, float]
    unready: Sequence[str] = ()
    missing: Sequence[str] = ()


def per_pod_replicas(metrics: PodMetrics, *, target: float, current: int) -> int | None:
    """Replicas asked for by a Pods metric with an average `target`; None when no pod has a value."""
    if not metrics.values:
        return None
    ratio = _ratio(metrics.values.values(), target)
    grow_over_unready = bool(metrics.unready) and ratio > 1.0
    if not grow_over_unready and not metrics.missing:
        return current if in_tolerance(ratio) else math.ceil(ratio * len(metrics.values))
    idle = metrics.unready if grow_over_unready else ()
    return _rebalanced(metrics, idle, target=target, current=current, ratio=ratio)


def _rebalanced(
    metrics: PodMetrics, idle: Sequence[str], *, target: float, current: int, ratio: float
) -> int:
    """Missing pods count as on target when shrinking, as idle when growing; a flipped sign is no change."""
    values = {**metrics.values, **dict.fromkeys(metrics.missing, target if ratio < 1.0 else 0.0)}
    values.update(dict.fromkeys(idle, 0.0))
    damped = _ratio(values.values(), target)
    if in_tolerance(damped) or (ratio < 1.0) != (damped < 1.0):
        return current
    replicas = math.ceil(damped * len(values))
    wrong_way = replicas > current if damped < 1.0 else replicas < current
    return current if wrong_way else replicas


def _ratio(values: Collection[float], target: float) -> float:
    return sum(values) / len(values) / target


def external_replicas(total: float, *, target: float, current: int) -> int:
    """Replicas asked for by an External metric with an average-value target. Readiness plays no part."""
    if current > 0 and in_tolerance(total / (target * current)):
        return current
    return math.ceil(total / target)


def limited_up(desired: int, *, replicas_at_period_start: int) -> int:
    """Default scale-up policies: at most +100 % or +4 pods above the count 15 s ago."""
    ceiling = max(replicas_at_period_start + UP_PODS, math.ceil(replicas_at_period_start * UP_FACTOR))
    return min(desired, ceiling)


Gauge = Callable[[PodReading], float | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of `spec.metrics`: a per-pod gauge and its target average."""

    gauge: Gauge
    target: float


def waiting(pod: PodReading) -> float | None:
    return pod.waiting


def kv_usage(pod: PodReading) -> float | None:
    return pod.kv_usage


def in_flight(pod: PodReading) -> float | None:
    return pod.in_flight


def grouped(reading: FleetReading, gauge: Gauge) -> PodMetrics:
    """A loading pod has no metrics endpoint yet, so it is missing and not merely unready."""
    values = {pod.name: value for pod in reading.ready if (value := gauge(pod)) is not None}
    return PodMetrics(values, missing=[pod.name for pod in reading.pods if pod.name not in values])


@dataclass(slots=True)
class Behaviour:
    """`spec.behavior`: the downward stabilisation window and the upward rate limit, with their state."""

    down_window: float = 300.0
    _recommended: Window = field(init=False)
    _written: Window = field(default_factory=lambda: Window(SYNC_SECONDS + 1e-6))

    def __post_init__(self) -> None:
        self._recommended = Window(self.down_window)

    def apply(self, raw: int, reading: FleetReading) -> int:
        if self._recommended.max() is None:
            # As the controller does when it first sees an object.
            self._recommended.add(reading.at, reading.desired)
        self._recommended.add(reading.at, raw)
        highest = self._recommended.max()
        stabilised = raw if raw >= reading.desired else min(reading.desired, int(highest or raw))
        self._written.add(reading.at, reading.desired)
        start = int(min(self._written.within(reading.at, SYNC_SECONDS + 1e-6)))
        return reading.clamp(limited_up(stabilised, replicas_at_period_start=start))


@dataclass(slots=True)
class HorizontalPodAutoscaler:
    metrics: tuple[Metric, ...]
    down_window: float = 300.0
    interval: float = SYNC_SECONDS
    _behaviour: Behaviour = field(init=False)

    def __post_init__(self) -> None:
        self._behaviour = Behaviour(self.down_window)

    def step(self, reading: FleetReading) -> int:
        asked = [
            per_pod_replicas(grouped(reading, metric.gauge), target=metric.target, current=reading.desired)
            for metric in self.metrics
        ]
        known = [replicas for replicas in asked if replicas is not None]
        if not known:
            return reading.desired
        raw = max(known)
        if len(known) < len(asked) and raw < reading.desired:
            return reading.desired
        return self._behaviour.apply(raw, reading)

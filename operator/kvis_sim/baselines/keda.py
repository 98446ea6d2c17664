"""KEDA: a Prometheus trigger polled every 30 s that feeds an HPA external metric.

Source: keda.sh docs 2.21 (ScaledObject, Prometheus scaler). The value is a sum over the service, readiness
plays no part in it, and an empty query result reads as 0 unless `ignoreNullValues` is false. 1 <-> N is the
HPA's rule.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kvis_sim.baselines.hpa import SYNC_SECONDS, Behaviour, external_replicas
from kvis_sim.baselines.reading import FleetReading, PodReading

POLLING_SECONDS = 30.0


@dataclass(slots=True)
class ScaledObject:
    gauge: Callable[[PodReading], float | None]
    target: float  # per replica
    down_window: float = 300.0
    ignore_null_values: bool = True
    interval: float = SYNC_SECONDS
    _behaviour: Behaviour = field(init=False)
    _polled_at: float | None = None
    _value: float | None = None

    def __post_init__(self) -> None:
        self._behaviour = Behaviour(self.down_window)

    def step(self, reading: FleetReading) -> int:
        if self._polled_at is None or reading.at - self._polled_at >= POLLING_SECONDS - 1e-6:
            self._value, self._polled_at = self._query(reading), reading.at
        if self._value is None:
            return reading.desired
        raw = external_replicas(self._value, target=self.target, current=reading.desired)
        return self._behaviour.apply(raw, reading)

    def _query(self, reading: FleetReading) -> float | None:
        series = [value for pod in reading.ready if (value := self.gauge(pod)) is not None]
        if series:
            return sum(series)
        return 0.0 if self.ignore_null_values else None

"""Workload Variant Autoscaler, saturation analyser V1 (percentages).

Source: llm-d workload-variant-autoscaler `internal/saturation/analyzer.go` and its saturation config
(2026-02). A replica is saturated at KV >= 0.80 or 5 waiting; spare is averaged over the unsaturated ones;
+1 when it falls under its trigger, -1 when the load respread over one replica fewer leaves both spares.
Nothing happens while replicas are in transition. One variant here, so "cheapest grows, dearest shrinks"
does not arise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvis_sim.baselines.reading import FleetReading
from kvis_sim.baselines.windows import Window

PEAK_SECONDS = 60.0
MIN_UNSATURATED_TO_SHRINK = 2


@dataclass(frozen=True, slots=True)
class SaturationThresholds:
    kv_cache: float = 0.80
    queue_length: float = 5.0
    kv_spare: float = 0.10
    queue_spare: float = 3.0


@dataclass(frozen=True, slots=True)
class ReplicaPeak:
    """The 60 s maximum of one replica's KV usage (0-1) and waiting requests."""

    kv_usage: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Saturation:
    unsaturated: int
    spare_kv: float
    spare_queue: float
    grow: bool
    shrink_safe: bool


def analyse(peaks: Sequence[ReplicaPeak], limits: SaturationThresholds) -> Saturation:
    spare = [
        (limits.kv_cache - peak.kv_usage, limits.queue_length - peak.waiting)
        for peak in peaks
        if peak.kv_usage < limits.kv_cache and peak.waiting < limits.queue_length
    ]
    count = len(spare)
    spare_kv = sum(kv for kv, _ in spare) / count if count else 0.0
    spare_queue = sum(queue for _, queue in spare) / count if count else 0.0
    return Saturation(
        unsaturated=count,
        spare_kv=spare_kv,
        spare_queue=spare_queue,
        grow=spare_kv < limits.kv_spare or spare_queue < limits.queue_spare,
        shrink_safe=_shrink_safe(count, spare_kv, spare_queue, limits),
    )


def _shrink_safe(count: int, spare_kv: float, spare_queue: float, limits: SaturationThresholds) -> bool:
    if count < MIN_UNSATURATED_TO_SHRINK:
        return False
    spread = count / (count - 1)
    kv_left = limits.kv_cache - (limits.kv_cache - spare_kv) * spread
    queue_left = limits.queue_length - (limits.queue_length - spare_queue) * spread
    return kv_left >= limits.kv_spare and queue_left >= limits.queue_spare


@dataclass(slots=True)
class WvaV1:
    thresholds: SaturationThresholds = field(default_factory=SaturationThresholds)
    interval: float = 30.0
    _kv: dict[str, Window] = field(default_factory=dict)
    _waiting: dict[str, Window] = field(default_factory=dict)

    def step(self, reading: FleetReading) -> int:
        peaks = self._peaks(reading)
        if not peaks or len(peaks) != len(reading.pods) or len(reading.pods) != reading.desired:
            return reading.desired
        found = analyse(peaks, self.thresholds)
        if found.grow:
            return reading.clamp(len(peaks) + 1)
        if found.shrink_safe:
            return reading.clamp(len(peaks) - 1)
        return reading.desired

    def _peaks(self, reading: FleetReading) -> list[ReplicaPeak]:
        peaks = []
        for pod in reading.ready:
            if pod.kv_usage is None or pod.waiting is None:
                continue
            kv = self._kv.setdefault(pod.name, Window(PEAK_SECONDS))
            waiting = self._waiting.setdefault(pod.name, Window(PEAK_SECONDS))
            kv.add(reading.at, pod.kv_usage)
            waiting.add(reading.at, pod.waiting)
            peaks.append(ReplicaPeak(kv.max() or 0.0, waiting.max() or 0.0))
        return peaks

"""Dynamo Planner's load rule in its easy mode, for aggregated workers.

Source: ai-dynamo/dynamo `components/src/dynamo/planner/core/load_scaling.py` (1.6.1): the share of KV
tokens that scheduled and queued work would fill, per worker; +1 when any is over the upper threshold, -1
when all are under the lower one, and only observing while a change is in progress.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvis_sim.baselines.reading import FleetReading, PodReading

THROUGHPUT = (1.0, 0.6)
LATENCY = (0.4, 0.1)


def easy_decision(utilisations: Sequence[float], *, workers: int, thresholds: tuple[float, float]) -> int:
    grow_over, shrink_under = thresholds
    if any(value > grow_over for value in utilisations):
        return workers + 1
    if workers > 1 and utilisations and all(value < shrink_under for value in utilisations):
        return workers - 1
    return workers


@dataclass(slots=True)
class DynamoEasy:
    thresholds: tuple[float, float] = THROUGHPUT
    interval: float = 5.0

    def step(self, reading: FleetReading) -> int:
        if reading.pending or len(reading.ready) != reading.desired:
            return reading.desired
        found = [self._utilisation(pod, reading) for pod in reading.ready]
        known = [value for value in found if value is not None]
        if len(known) != len(found) or not known:
            return reading.desired
        return reading.clamp(easy_decision(known, workers=len(known), thresholds=self.thresholds))

    @staticmethod
    def _utilisation(pod: PodReading, reading: FleetReading) -> float | None:
        if pod.kv_usage is None or pod.waiting is None:
            return None
        queued = pod.waiting * (reading.input_tokens or 0.0)
        return pod.kv_usage + queued / reading.kv_capacity_tokens

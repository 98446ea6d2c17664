"""Workload Variant Autoscaler, saturation analyser V2 (tokens).

Source: llm-d workload-variant-autoscaler `internal/engines/analyzers/saturation_v2/analyzer.go` (2026-02):
capacity of a replica in KV tokens is min(k1, k2), k1 = KV capacity * 0.8, k2 = tokens in use while >= 5
requests wait (rolling mean of 10 per output-length bucket, else k1); demand is tokens in use plus waiting *
mean input. It grows by demand/0.85 - supply (ready and pending) and shrinks by supply - demand/0.70, in
whole replicas.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from kvis_sim.baselines.reading import FleetReading

HISTORY = 10
SHORT_OUTPUT, MEDIUM_OUTPUT = 100.0, 500.0


@dataclass(frozen=True, slots=True)
class TokenThresholds:
    kv_cache: float = 0.80
    queue_length: float = 5.0
    grow_at: float = 0.85
    shrink_at: float = 0.70


def output_bucket(output_tokens: float) -> str:
    if output_tokens < SHORT_OUTPUT:
        return "short"
    return "medium" if output_tokens < MEDIUM_OUTPUT else "long"


def replicas_for(
    *, demand: float, per_replica: float, ready: int, pending: int, limits: TokenThresholds
) -> int:
    """Replicas for `demand` tokens when one carries `per_replica`; both counts are replicas that exist."""
    current = ready + pending
    required = demand / limits.grow_at - current * per_replica
    if required > 0:
        return current + math.ceil(required / per_replica - 1e-9)
    spare = ready * per_replica - demand / limits.shrink_at
    if spare > 0 and pending == 0:
        return current - math.floor(spare / per_replica + 1e-9)
    return current


@dataclass(slots=True)
class WvaV2:
    thresholds: TokenThresholds = field(default_factory=TokenThresholds)
    interval: float = 30.0
    _knees: dict[str, deque[float]] = field(default_factory=dict)

    def step(self, reading: FleetReading) -> int:
        capacities, demand = self._measure(reading)
        if not capacities:
            return reading.desired
        per_replica = median(capacities)
        if per_replica <= 0:
            return reading.desired
        wanted = replicas_for(
            demand=demand,
            per_replica=per_replica,
            ready=len(capacities),
            pending=reading.pending,
            limits=self.thresholds,
        )
        return reading.clamp(wanted)

    def _measure(self, reading: FleetReading) -> tuple[Sequence[float], float]:
        capacities, demand = [], 0.0
        memory_bound = reading.kv_capacity_tokens * self.thresholds.kv_cache
        history = self._knees.setdefault(output_bucket(reading.output_tokens or 0.0), deque(maxlen=HISTORY))
        for pod in reading.ready:
            if pod.kv_usage is None or pod.waiting is None:
                continue
            in_use = pod.kv_usage * reading.kv_capacity_tokens
            demand += in_use + pod.waiting * (reading.input_tokens or 0.0)
            capacities.append(
                min(memory_bound, self._compute_bound(pod.waiting, in_use, history, memory_bound))
            )
        return capacities, demand

    def _compute_bound(
        self, waiting: float, in_use: float, history: deque[float], memory_bound: float
    ) -> float:
        if waiting >= self.thresholds.queue_length and in_use > 0:
            history.append(in_use)
            return in_use
        return sum(history) / len(history) if history else memory_bound

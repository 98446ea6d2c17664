"""What a rival scaler gets to see: one service at one moment, from its pods' own metric endpoints.

A gauge is None when that pod's scrape failed or the pod exposes nothing yet; what a rival makes of a
missing value is part of its port. Times are Unix seconds, KV usage is 0-1, tokens are per request.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodReading:
    name: str
    ready: bool
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None

    @property
    def in_flight(self) -> float | None:
        if self.running is None or self.waiting is None:
            return None
        return self.running + self.waiting


@dataclass(frozen=True, slots=True)
class FleetReading:
    """`desired` is the replica count last written; `pods` exist, ready or not, and are not stopping."""

    at: float
    desired: int
    pods: tuple[PodReading, ...]
    kv_capacity_tokens: float  # of one replica
    input_tokens: float | None = None
    output_tokens: float | None = None
    min_replicas: int = 1
    max_replicas: int = 16

    @property
    def ready(self) -> tuple[PodReading, ...]:
        return tuple(pod for pod in self.pods if pod.ready)

    @property
    def pending(self) -> int:
        return len(self.pods) - len(self.ready)

    def clamp(self, replicas: float) -> int:
        return int(max(self.min_replicas, min(self.max_replicas, replicas)))

    def total_in_flight(self) -> float | None:
        """Requests running or waiting over the ready pods that answered; None when none did."""
        answers = [load for pod in self.ready if (load := pod.in_flight) is not None]
        return sum(answers) if answers else None

"""What deciding gets to see: one service at one moment, from Kubernetes and from the pods' own counters.

`observe` (signals/golden.py) computes it from pod states and sample windows. Every measured field is `float | None`;
None means not observed, 0 means observed zero. Rates are per second over the whole service, tokens are per request.
"""

from dataclasses import dataclass
from enum import StrEnum


class PodPhase(StrEnum):
    PENDING = "Pending"  # created, not yet ready: scheduling, pulling, loading, warming up
    READY = "Ready"
    DRAINING = "Draining"  # serving what it has, gets nothing new
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod as Kubernetes (or the simulator) knows it. Times are Unix seconds."""

    name: str
    uid: str
    phase: PodPhase
    created_at: float
    ready_at: float | None = None


@dataclass(frozen=True, slots=True)
class PodSignals:
    """One pod's readings now and over the last window."""

    name: str
    uid: str
    phase: PodPhase
    age_seconds: float
    fresh: bool  # a sample not older than two scrape intervals
    warm: bool  # old enough and used enough for its hit rate and speed to mean something
    sample_age_seconds: float | None = None
    load_seconds: float | None = None  # from creation to ready
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    kv_capacity_tokens: float | None = None
    block_size: int | None = None
    max_num_seqs: int | None = None
    max_num_active_seqs: int | None = None
    hit_rate: float | None = None  # 10 min
    hit_queries: float | None = None  # prompt tokens that hit_rate rests on
    prefill_decode_ratio: float | None = None  # mean prefill time / mean inter-token time, 5 min
    finished: float | None = None  # requests finished in the last 2 min: the evidence behind the next line
    preemptions_per_request: float | None = None
    tpot_p95_at_least_seconds: float | None = None
    steps: "StepWindow | None" = None


@dataclass(frozen=True, slots=True)
class StepWindow:
    """One pod's engine steps between two scrapes, for the step-time fit: means per step."""

    steps: float
    seconds_per_step: float
    prefill_tokens: float
    running: float
    kv_tokens: float


@dataclass(frozen=True, slots=True)
class Observation:
    at: float
    pods: tuple[PodSignals, ...]
    # Arrival rates, requests per second over the service
    rate_15s: float | None = None
    rate_60s: float | None = None
    rate_180s: float | None = None  # steadier, for services with few requests a minute
    # Request shape over the last 10 minutes
    input_tokens: float | None = None
    output_tokens: float | None = None
    shape_seconds: float = 0.0  # of it that were seen: the longest of the pods' windows
    recent_input_tokens: float | None = None  # the same over 2 minutes, where enough requests were seen
    recent_output_tokens: float | None = None
    hit_rate: float | None = None  # token hit rate over warm pods, 0-1
    hit_queries: float | None = None  # prompt tokens that hit_rate rests on
    # Load now
    running: float | None = None
    waiting: float | None = None
    kv_tokens: float | None = None  # KV tokens referenced by live requests
    kv_usage: float | None = None  # mean over fresh pods
    kv_usage_max: float | None = None
    kv_capacity_tokens: float | None = None  # of one replica: mean over the pods that report it
    max_num_seqs: int | None = None  # ceiling of one replica: the smallest reported
    # Latency and thrash over the last 2 minutes
    ttft_p95_seconds: float | None = None
    tpot_p95_seconds: float | None = None
    ttft_p95_at_least_seconds: float | None = None  # lower edge of the histogram bucket that holds the p95
    tpot_p95_at_least_seconds: float | None = None
    preemptions_per_request: float | None = None
    prefill_decode_ratio: float | None = None
    faults: frozenset[str] = frozenset()  # names from signals/faults.py
    model_names: frozenset[str] = frozenset()  # as the pods' series are labelled

    @property
    def ready(self) -> int:
        return sum(pod.phase is PodPhase.READY for pod in self.pods)

    @property
    def pending(self) -> int:
        return sum(pod.phase is PodPhase.PENDING for pod in self.pods)

    @property
    def fresh_ready(self) -> int:
        return sum(pod.fresh for pod in self.pods if pod.phase is PodPhase.READY)

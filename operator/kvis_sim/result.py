"""What one simulated run amounts to: attainment, cost, latency, actions. Every number is simulated.

Measured over requests that arrive, and time that passes, between the warm-up and the end of the offered
traffic. A request is good when it finished and met both SLOs; rejected, lost and unfinished ones are bad.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds, from logarithmic bins 2 % wide; None when nothing was observed."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A tick that changed the wanted replicas or the reason. `at` in seconds from the scenario's start."""

    at: float
    current: int
    replicas: int
    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplicaPoint:
    """A change of the fleet, seconds from the start; `alive` counts starting, ready and draining pods."""

    at: float
    desired: int
    ready: int
    alive: int


@dataclass(frozen=True, slots=True)
class MinuteCount:
    """Requests offered in one minute of arrival and how many of them turned out good."""

    offered: int
    good: int


@dataclass(frozen=True, slots=True)
class Result:
    scenario: str
    controller: str
    seed: int
    offered: int
    good: int
    finished: int
    rejected: int  # larger than a pod's whole KV cache
    lost: int  # died with a node or with a drain that ran out of grace
    unfinished: int
    replica_seconds: float  # from creation to termination, every pod
    ttft: Quantiles
    tpot: Quantiles
    inter_token: Quantiles
    actions: int  # changes of the wanted replicas
    reversals: int  # changes of direction among the actions
    violation_minutes: int  # minutes of arrival with less than 95 % good
    minutes: tuple[MinuteCount, ...]
    hit_rate: float | None  # by tokens, at first scheduling of each request
    prompt_tokens: int
    computed_prompt_tokens: int  # prefilled, recomputation included
    generated_tokens: int
    preemptions: int
    preempted_tokens: int  # KV tokens thrown away
    max_alive: int
    timeline: tuple[ReplicaPoint, ...]
    decisions: tuple[DecisionRecord, ...]
    whole_run: "WholeRun"

    @property
    def attainment(self) -> float | None:
        return self.good / self.offered if self.offered else None

    @property
    def replica_hours(self) -> float:
        return self.replica_seconds / 3600.0


@dataclass(frozen=True, slots=True)
class WholeRun:
    """Totals over the whole run, warm-up included: what conservation laws are stated on."""

    arrived: int
    finished: int
    rejected: int
    lost: int
    in_flight: int  # at the end
    sojourn_seconds: float  # sum over finished requests of finish - arrival
    output_tokens: int  # emitted by finished requests
    generated_tokens: int  # emitted by all engines
    end: float
    ticks: int

"""What the scaler is asked to do: bounds, objectives, and what is known before any traffic is seen.

Built from the resource and its profile at the edge; the simulator builds it from a scenario.
"""

import math
from dataclasses import dataclass
from enum import StrEnum


class HitSharing(StrEnum):
    """What removing a replica does to the hit rate, by how requests find their prefixes."""

    UNAWARE = "Unaware"  # round robin, least loaded: every pod holds everything
    PREFIX_AWARE = "PrefixAware"  # each pod holds its share: capacity goes with the pod
    SHARED = "Shared"  # an external store keeps the blocks


@dataclass(frozen=True, slots=True)
class StepTime:
    """Step time model t = a + p*prefill_tokens + d*running + c*kv_tokens, in seconds (reference H2)."""

    a: float
    p: float
    d: float
    c: float

    @property
    def terms(self) -> tuple[float, float, float, float]:
        return (self.a, self.p, self.d, self.c)


ALL_FEATURES = frozenset({"hit", "fit", "memory", "backlog", "pending_credit", "pessimistic_hit"})
"""Parts of the algorithm that an ablation run may leave out; a deployed operator always has them all."""


@dataclass(frozen=True, slots=True)
class ScalingSpec:
    min_replicas: int
    max_replicas: int
    prior: StepTime
    kv_capacity_tokens: float  # per replica, as planned; a measured one wins
    max_num_seqs: int
    ttft_slo_seconds: float | None = None
    tpot_slo_seconds: float | None = None
    input_tokens_hint: float | None = None
    output_tokens_hint: float | None = None
    start_seconds: float = 120.0  # creation to ready, as the profile says; a measured one wins
    tick_seconds: float = 15.0
    down_memory_seconds: float | None = None  # None: max(10 min, 5 x start)
    spare_replicas: float = 0.0  # on top of what the load needs, for bursts shorter than a start
    rho_up: float = 0.85
    rho_down: float = 0.80
    hit_sharing: HitSharing = HitSharing.UNAWARE
    gpu_budget_replicas: int | None = None
    alert_floor: int | None = None  # set while a cache-pressure alert holds
    features: frozenset[str] = ALL_FEATURES

    def __post_init__(self) -> None:
        """Raises ValueError naming the field and the values that would work: a missing bound is never read as zero."""
        _require(
            self.min_replicas >= 1,
            "min_replicas",
            self.min_replicas,
            ">= 1: nothing wakes a service from zero",
        )
        _require(
            self.max_replicas >= self.min_replicas,
            "max_replicas",
            self.max_replicas,
            f">= min_replicas {self.min_replicas}",
        )
        _require(self.max_num_seqs >= 1, "max_num_seqs", self.max_num_seqs, ">= 1")
        for name in ("kv_capacity_tokens", "start_seconds", "tick_seconds"):
            _require(_positive(getattr(self, name)), name, getattr(self, name), "a finite number > 0")
        for name in ("ttft_slo_seconds", "tpot_slo_seconds", "input_tokens_hint", "output_tokens_hint"):
            value = getattr(self, name)
            _require(
                value is None or _positive(value),
                name,
                value,
                "a finite number > 0, or None for no objective or hint",
            )
        memory = self.down_memory_seconds
        _require(
            memory is None or (math.isfinite(memory) and memory >= 0),
            "down_memory_seconds",
            memory,
            ">= 0, or None for the default",
        )
        spare = self.spare_replicas
        _require(math.isfinite(spare) and spare >= 0, "spare_replicas", spare, "a finite number >= 0")
        _require(
            0 < self.rho_down <= self.rho_up <= 1,
            "rho_down",
            self.rho_down,
            f"within (0, rho_up {self.rho_up}], and rho_up <= 1",
        )
        _require(
            all(math.isfinite(x) and x >= 0 for x in self.prior.terms) and any(self.prior.terms),
            "prior", self.prior, "finite coefficients >= 0, not all zero",
        )  # fmt: skip


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _require(holds: bool, name: str, value: object, works: str) -> None:
    if not holds:
        raise ValueError(f"ScalingSpec.{name} is {value}; it must be {works}")

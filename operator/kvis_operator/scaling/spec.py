"""What the scaler is asked to do: bounds, objectives, and what is known before any traffic is seen.

Built from the resource and its profile at the edge; the simulator builds it from a scenario.
"""

from dataclasses import dataclass, field
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
    down_memory_seconds: float | None = None  # None: max(30 min, 10 x start)
    rho_up: float = 0.85
    rho_down: float = 0.75
    hit_sharing: HitSharing = HitSharing.UNAWARE
    gpu_budget_replicas: int | None = None
    alert_floor: int | None = None  # set while a cache-pressure alert holds
    features: frozenset[str] = field(default_factory=lambda: ALL_FEATURES)


ALL_FEATURES = frozenset({"hit", "fit", "memory", "backlog", "pending_credit", "pessimistic_hit"})
"""Parts of the algorithm that an ablation run may leave out; a deployed operator always has them all."""

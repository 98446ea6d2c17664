"""Law for the live cap on running sequences of one pod, by evidence from that pod.

    target  B* = min(SLO-bound batch, .92 KVcap / (I+O), learned bound, ceiling)
    raise   when requests wait and the cap is what stops them: +25 % below KV 60 %, tapering linearly to none at 85 %
    cut     halve on a preemption storm that still fills the cache (again after each settle time while it lasts); the
            failed size becomes a bound
    trim    towards B* when the KV cache is full and requests wait, or when the pod misses TPOT and nobody waits

Lowering never cancels anything: the engine admits less and drains down. One move at a time, then a settle time, since
the evidence looks back two minutes. Rejections are not a signal: engines queue inside and never answer 429.
Where preemptions ask for both a lower cap and a replica, the cap moves first: it acts within a step, and the scaler's
own guard waits for two minutes of preemptions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self

from kvis_operator.signals.observation import Observation, PodPhase, PodSignals

KV_FILL: Final = 0.92  # of the KV cache that a full batch may take
SOFT_KV: Final = 0.85  # no growth from here on
FREE_KV: Final = 0.60  # full growth up to here
FULL_KV: Final = 0.95
GROWTH: Final = 0.25
CUT: Final = 0.5
STORM_PER_REQUEST: Final = 0.1
LARGEST_TRIM: Final = 0.75  # of what runs is left: at most a quarter at a time for latency
SETTLE_RAISE_SECONDS: Final = 30.0
SETTLE_LOWER_SECONDS: Final = 150.0  # the two-minute windows must have forgotten the old cap
BOUND_SECONDS: Final = 3600.0  # a failed size is tried again after an hour: the mix may have changed
FEWEST_REQUESTS: Final = 5.0  # finished in the window; fewer are no evidence for lowering


class CapReason(StrEnum):
    RAISE = "Raise"
    PREEMPTION_STORM = "PreemptionStorm"
    KV_PRESSURE = "KVPressure"
    TPOT_MISSED = "TPOTMissed"
    BOUNDS = "Bounds"  # moved into [minimum, maximum]
    # Nothing to do
    SUFFICIENT = "Sufficient"  # nobody waits, or the cap is not what they wait for
    KV_LIMIT = "KVLimit"  # would be raised, but the KV cache is near its soft limit
    AT_BOUND = "AtBound"
    HOLD_SETTLING = "HoldSettling"
    HOLD_NO_DATA = "HoldNoData"
    HOLD_EVIDENCE = "HoldInsufficientEvidence"
    NOT_TUNABLE = "NotTunable"  # the engine offers no live cap
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class CapSpec:
    """What the user and the plan allow. `slo_batch` is the scaler's batch for the TPOT objective, if it knows one."""

    ceiling: int
    minimum: int = 1
    maximum: int | None = None
    tpot_slo_seconds: float | None = None
    slo_batch: int | None = None
    paused: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError naming the field and the values that would work."""
        if self.ceiling < 1:
            raise ValueError(f"CapSpec.ceiling is {self.ceiling}; it must be >= 1")
        if not 1 <= self.minimum <= self.ceiling:
            raise ValueError(f"CapSpec.minimum is {self.minimum}; it must be 1 to the ceiling {self.ceiling}")
        if self.maximum is not None and self.maximum < self.minimum:
            raise ValueError(f"CapSpec.maximum is {self.maximum}; it must be >= the minimum {self.minimum}")

    @property
    def upper(self) -> int:
        return self.ceiling if self.maximum is None else min(self.ceiling, self.maximum)


@dataclass(frozen=True, slots=True)
class CapState:
    """Memory of one pod's cap: when it moved last and which size failed. Times are Unix seconds."""

    moved_at: float | None = None
    lowered: bool = False  # the last move was down
    bound: int | None = None  # largest size to try, learned from a storm
    bound_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        raw = {
            "moved_at": self.moved_at,
            "lowered": self.lowered or None,
            "bound": self.bound,
            "bound_at": self.bound_at,
        }
        return {name: value for name, value in raw.items() if value is not None}

    @classmethod
    def restore(cls, raw: Mapping[str, Any] | None) -> Self:
        """The state that `to_json` wrote; anything unreadable is nothing remembered."""
        if not isinstance(raw, Mapping):
            return cls()
        moved, bound, bound_at = (raw.get(name) for name in ("moved_at", "bound", "bound_at"))
        if not all(value is None or _is_number(value) for value in (moved, bound, bound_at)):
            return cls()
        return cls(moved, raw.get("lowered") is True, None if bound is None else int(bound), bound_at)


@dataclass(frozen=True, slots=True)
class CapDecision:
    pod: str
    current: int | None
    cap: int | None  # None: leave the pod alone
    reason: CapReason
    numbers: Mapping[str, float]


def decide_cap(
    spec: CapSpec, pod: PodSignals, obs: Observation, state: CapState, *, now: float
) -> tuple[CapDecision, CapState]:  # fmt: skip
    """The cap for `pod` at `now` (Unix seconds), and the state for the next call."""
    current = pod.max_num_active_seqs
    state = _forgotten(state, now)
    if current is None:
        return CapDecision(pod.name, None, None, CapReason.NOT_TUNABLE, {}), state
    target = memory_target(pod, obs)
    cap, reason = (current, CapReason.PAUSED) if spec.paused else _cap(spec, pod, obs, state, now, current)
    decision = CapDecision(pod.name, current, cap, reason, _numbers(pod, obs, target, state))
    if cap == current:
        return decision, state
    state = replace(state, moved_at=now, lowered=cap < current)
    if reason is CapReason.PREEMPTION_STORM:
        failed = _in_use(pod, current)
        state = replace(state, bound=max(spec.minimum, failed - 1), bound_at=now)
    return decision, state


def memory_target(pod: PodSignals, obs: Observation) -> int | None:
    """Sequences of the measured length that fit the pod's KV cache: .92 KVcap / (I+O)."""
    if not _known(pod.kv_capacity_tokens) or not _known(obs.input_tokens) or not _known(obs.output_tokens):
        return None
    length = (obs.input_tokens or 0.0) + (obs.output_tokens or 0.0)
    return max(1, math.floor(KV_FILL * (pod.kv_capacity_tokens or 0.0) / length)) if length > 0 else None


def _cap(
    spec: CapSpec, pod: PodSignals, obs: Observation, state: CapState, now: float, current: int
) -> tuple[int, CapReason]:  # fmt: skip
    """First rule that applies, in order of harm."""
    if not spec.minimum <= current <= spec.upper:
        return min(spec.upper, max(spec.minimum, current)), CapReason.BOUNDS
    if (
        pod.phase is not PodPhase.READY
        or not pod.fresh
        or not all(map(_known, (pod.running, pod.waiting, pod.kv_usage)))
    ):
        return current, CapReason.HOLD_NO_DATA
    if _settling(state, now):
        return current, CapReason.HOLD_SETTLING
    if lowered := _lowered(spec, pod, obs, current):
        return lowered
    return _raised(spec, pod, obs, state, current)


def _lowered(spec: CapSpec, pod: PodSignals, obs: Observation, current: int) -> tuple[int, CapReason] | None:
    in_use = _in_use(pod, current)
    if (pod.preemptions_per_request or 0.0) > STORM_PER_REQUEST:
        # Preemptions are counted over two minutes. Once the storm is over, what runs now is not the size that failed.
        lasts = pod.waiting and (pod.kv_usage or 0.0) >= FREE_KV
        if not lasts or (pod.finished or 0.0) < FEWEST_REQUESTS:
            return current, CapReason.HOLD_EVIDENCE
        return _down_to(spec, math.floor(CUT * in_use), current), CapReason.PREEMPTION_STORM
    if _latency_needs_fewer(spec, pod, in_use):
        fewest = max(spec.slo_batch or 0, math.floor(LARGEST_TRIM * in_use))
        return _down_to(spec, fewest, current), CapReason.TPOT_MISSED
    target = memory_target(pod, obs)
    if (pod.kv_usage or 0.0) < FULL_KV or not pod.waiting or target is None:
        return None
    fitting = max(
        target, math.floor(KV_FILL * in_use / (pod.kv_usage or 1.0))
    )  # shared prefixes make them smaller
    return (_down_to(spec, fitting, current), CapReason.KV_PRESSURE) if fitting < current else None


def _latency_needs_fewer(spec: CapSpec, pod: PodSignals, in_use: int) -> bool:
    """Whether this pod misses TPOT for certain, by running more than the model's batch, with nobody waiting.

    Never below the model's batch: what interleaved prefills cost does not shrink with the cap. And not while
    requests wait: then capacity is short, and a lower cap would only move the wait from TPOT to TTFT.
    """
    slo, measured = spec.tpot_slo_seconds, pod.tpot_p95_at_least_seconds
    if slo is None or measured is None or not measured >= slo or spec.slo_batch is None:
        return False
    enough = (pod.finished or 0.0) >= FEWEST_REQUESTS
    return enough and not pod.waiting and in_use > max(spec.slo_batch, spec.minimum)


def _raised(
    spec: CapSpec, pod: PodSignals, obs: Observation, state: CapState, current: int
) -> tuple[int, CapReason]:
    running, usage = pod.running or 0.0, pod.kv_usage or 0.0
    if not pod.waiting or running < current:
        return current, CapReason.SUFFICIENT
    taper = min(1.0, max(0.0, (SOFT_KV - usage) / (SOFT_KV - FREE_KV)))
    if taper <= 0:
        return current, CapReason.KV_LIMIT
    wanted = current + max(1, math.floor(GROWTH * taper * current))
    if usage > 0:  # at the footprint of what runs now, stay below the soft limit
        wanted = min(wanted, max(current, math.floor(running * SOFT_KV / usage)))
    if wanted == current:
        return current, CapReason.KV_LIMIT
    most = min(bound for bound in (spec.upper, spec.slo_batch, state.bound) if bound is not None)
    cap = min(wanted, max(current, most))
    return (cap, CapReason.RAISE) if cap > current else (current, CapReason.AT_BOUND)


def _in_use(pod: PodSignals, current: int) -> int:
    """What the cap really bounds: a cap far above what runs would be cut without effect."""
    return min(current, max(1, math.ceil(pod.running or 0.0)))


def _down_to(spec: CapSpec, wanted: int, current: int) -> int:
    return min(current, max(spec.minimum, wanted))


def _settling(state: CapState, now: float) -> bool:
    wait = SETTLE_LOWER_SECONDS if state.lowered else SETTLE_RAISE_SECONDS
    return state.moved_at is not None and 0 <= now - state.moved_at < wait


def _forgotten(state: CapState, now: float) -> CapState:
    if state.bound_at is not None and now - state.bound_at >= BOUND_SECONDS:
        return replace(state, bound=None, bound_at=None)
    return state


def _numbers(pod: PodSignals, obs: Observation, target: int | None, state: CapState) -> dict[str, float]:
    numbers = {
        "running": pod.running,
        "waiting": pod.waiting,
        "kv_usage": pod.kv_usage,
        "preemptions_per_request": pod.preemptions_per_request,
        "finished": pod.finished,
        "tpot_p95_at_least_seconds": pod.tpot_p95_at_least_seconds,
        "memory_target": target,
        "bound": state.bound,
    }
    return {name: float(value) for name, value in numbers.items() if value is not None}


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

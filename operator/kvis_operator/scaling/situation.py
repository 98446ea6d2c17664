"""The facts of one tick that every rule needs, worked out once: what there is, what is missing, what can be trusted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter, is_
from statistics import median
from typing import Final

from kvis_operator.scaling.spec import ScalingSpec
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals import faults
from kvis_operator.signals.observation import Observation, PodPhase, PodSignals

SHORTEST_DEADLINE_SECONDS: Final = (
    900.0  # after which a replica that does not start is not counted on any more
)
DEADLINE_STARTS: Final = 10.0
START_RANGE: Final = (0.5, 3.0)  # a measured start time is believed within this multiple of the profile's
HARMLESS: Final = frozenset({faults.ALIAS})

_MEASURED: Final = tuple(
    f.name for f in fields(Observation) if f.name not in {"at", "pods", "faults", "model_names"}
)
_POD_MEASURED: Final = (
    "age_seconds", "running", "waiting", "kv_usage", "kv_capacity_tokens", "hit_rate", "hit_queries", "load_seconds",
)  # fmt: skip
_POD_READ: Final = attrgetter(*_POD_MEASURED)


@dataclass(frozen=True, slots=True)
class Situation:
    """`current` counts replicas asked for, whether they serve already or not."""

    spec: ScalingSpec
    obs: Observation
    now: float
    current: int
    pending: bool  # replicas asked for that do not serve yet and may still be expected to
    stuck: bool  # some have been awaited for too long
    start_seconds: float
    ready: int
    fresh_ready: int  # ready pods with a fresh sample

    @property
    def lower(self) -> int:
        return self.spec.min_replicas

    @property
    def upper(self) -> int:
        """The bound on growth: maximum and GPU budget, never below the minimum."""
        budget = self.spec.gpu_budget_replicas
        most = self.spec.max_replicas if budget is None else min(self.spec.max_replicas, budget)
        return max(self.spec.min_replicas, most)

    @property
    def served_seconds(self) -> float:
        """For how long the oldest of the replicas has been ready; 0 before the first is.

        One whose own start was not seen took as long as is usual.
        """
        ready = (pod for pod in self.obs.pods if pod.phase is PodPhase.READY)
        usual = self.start_seconds
        loads = ((pod.age_seconds, usual if pod.load_seconds is None else pod.load_seconds) for pod in ready)
        return max((age - load for age, load in loads), default=0.0)

    @property
    def blind(self) -> bool:
        """Fewer than half of the ready pods have a fresh sample, or there is nothing to look at."""
        return self.ready == 0 or self.fresh_ready < math.ceil(self.ready / 2)

    @property
    def trusted(self) -> bool:
        """Every ready pod was seen and no signal is in doubt: without it nothing may shrink."""
        doubts = {faults.kind(fault) for fault in self.obs.faults} - HARMLESS
        return not self.blind and not doubts and self.fresh_ready == self.ready


def situation(spec: ScalingSpec, obs: Observation, state: ScalerState, now: float) -> Situation:
    """The facts at `now`. Numbers that are not finite or negative are unknown from here on."""
    clean = sanitized(obs)
    start_seconds = _start_seconds(spec, clean.pods)
    current = state.desired
    if current is None:
        current = sum(pod.phase is not PodPhase.DRAINING for pod in clean.pods)
    pending, stuck = _pending(clean, current, start_seconds, state.up_at, now)
    return Situation(spec, clean, now, current, pending, stuck, start_seconds, clean.ready, clean.fresh_ready)


def sanitized(obs: Observation) -> Observation:
    """`obs` without numbers that cannot be: not finite, negative, or a hit rate above 1."""
    bad = {name: None for name in _MEASURED if _impossible(getattr(obs, name))}
    if obs.hit_rate is not None and obs.hit_rate > 1:
        bad["hit_rate"] = None
    pods = tuple(_sanitized_pod(pod) for pod in obs.pods)
    if not bad and all(map(is_, pods, obs.pods)):
        return obs
    doubts = frozenset(f"{faults.NOT_FINITE}:{name}" for name in bad)
    return replace(obs, pods=pods, faults=obs.faults | doubts, **bad)  # type: ignore[arg-type]


def _sanitized_pod(pod: PodSignals) -> PodSignals:
    readings = _POD_READ(pod)
    if all(reading is None or 0 <= reading < math.inf for reading in readings):
        return pod
    bad = {name: None for name, reading in zip(_POD_MEASURED, readings, strict=True) if _impossible(reading)}
    if "age_seconds" in bad:
        return replace(pod, **(bad | {"age_seconds": 0.0}))  # type: ignore[arg-type]
    return replace(pod, **bad)  # type: ignore[arg-type]


def _impossible(value: float | None) -> bool:
    return value is not None and not (math.isfinite(value) and value >= 0)


def _start_seconds(spec: ScalingSpec, pods: Sequence[PodSignals]) -> float:
    """Measured median start time, believed within bounds: a flapping pod looks as if it had started for hours."""
    measured = [pod.load_seconds for pod in pods if pod.phase is PodPhase.READY and pod.load_seconds]
    if not measured:
        return spec.start_seconds
    low, high = START_RANGE
    return min(high * spec.start_seconds, max(low * spec.start_seconds, median(measured)))


def _pending(
    obs: Observation, current: int, start_seconds: float, up_at: float | None, now: float
) -> tuple[bool, bool]:  # fmt: skip
    if obs.ready >= current:
        return False, False
    waiting = [pod.age_seconds for pod in obs.pods if pod.phase in (PodPhase.PENDING, PodPhase.FAILED)]
    if not waiting:
        waiting = [0.0 if up_at is None else now - up_at]
    deadline = max(SHORTEST_DEADLINE_SECONDS, DEADLINE_STARTS * start_seconds)
    return min(waiting) < deadline, max(waiting) >= deadline

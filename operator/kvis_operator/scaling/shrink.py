"""The way down: every condition that must hold before a replica is taken away, in order, first failure wins.

(reference H5.3) The first reason found is the one reported, with the time at which it ends where it ends by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kvis_operator.scaling.consolidation import carries
from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.learning import Knowledge
from kvis_operator.scaling.need import whole
from kvis_operator.scaling.situation import Situation
from kvis_operator.scaling.spec import HitSharing
from kvis_operator.scaling.spread import MINUTE
from kvis_operator.scaling.state import ScalerState

COVERAGE: Final = 0.9  # of the demand memory that must have been observed
STEP_SHARE: Final = 0.2
AFTER_UP_SECONDS: Final = 300.0
AFTER_UP_STARTS: Final = 2.0
AFTER_DOWN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Replicas wanted, before bounds, and why."""

    replicas: int
    reason: Reason
    held_until: float | None = None


Rule = Callable[[Situation, Knowledge, ScalerState], Verdict | None]


def shrink_or_hold(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict:
    """Fewer replicas if all of the rules allow it, else the current number with the first rule that forbids it."""
    for rule in _FORBIDDING:
        if verdict := rule(facts, known, state):
            return verdict
    return _consolidated(facts, known, state)


def cooldown_after_up(facts: Situation, known: Knowledge) -> float:
    """Seconds after growing in which nothing shrinks. A user who asked for a short memory gets a short cooldown."""
    given = facts.spec.down_memory_seconds
    floor = AFTER_UP_SECONDS if given is None else min(AFTER_UP_SECONDS, given)
    return max(AFTER_UP_STARTS * facts.start_seconds, floor)


def _keep(facts: Situation, reason: Reason, until: float | None = None) -> Verdict:
    return Verdict(facts.current, reason, until)


def _alert_holds(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    return _keep(facts, Reason.HOLD_ALERT) if facts.spec.alert_floor is not None else None


def _inputs_incomplete(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    complete = facts.trusted and known.need.down is not None and facts.obs.waiting is not None
    return None if complete else _keep(facts, Reason.HOLD_METRICS_STALE)


def _objective_out_of_reach(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    infeasible = (
        known.capacity is not None and not known.capacity.feasible and (facts.obs.rate_60s or 0.0) > 0
    )
    return _keep(facts, Reason.HOLD_SLO_INFEASIBLE) if infeasible else None


def _load_needs_them(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    needed = max(known.need.up or 0, whole(known.need.down or 0.0), facts.lower)
    return _keep(facts, Reason.WITHIN_CAPACITY) if needed >= facts.current else None


def _replicas_pending(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    return _keep(facts, Reason.HOLD_PENDING) if facts.pending else None


def _just_grown(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    since = max((at for at in (state.up_at, state.alerted_at) if at is not None), default=None)
    until = None if since is None else since + cooldown_after_up(facts, known)
    return _keep(facts, Reason.COOLDOWN_AFTER_UP, until) if until is not None and facts.now < until else None


def _just_shrunk(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    until = None if state.down_at is None else state.down_at + AFTER_DOWN_SECONDS
    return (
        _keep(facts, Reason.COOLDOWN_AFTER_DOWN, until) if until is not None and facts.now < until else None
    )


def _demand_remembered(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    """Too little of the memory observed, or a need in it that takes all current replicas."""
    memory = _memory(known, state)
    covered = state.demand.coverage(memory, now=facts.now) >= COVERAGE
    if covered and floor(facts, known, state) < facts.current:
        return None
    until = state.demand.held_until(facts.current - 1, memory, now=facts.now)
    calm = replace(state.flap, factor=1)
    unguarded = calm.memory(known.memory_seconds, known.longest_memory_seconds)
    base = state.demand.floor(unguarded, now=facts.now)
    guarded = base is not None and whole(base) < facts.current and unguarded < memory
    return _keep(facts, Reason.FLAP_GUARD if guarded else Reason.HOLD_DEMAND_MEMORY, until)


def _usual_peak_needs_them(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict | None:
    if known.need.keep is None and _asked_to_keep(known):
        return _keep(facts, Reason.HOLD_METRICS_STALE)
    return _keep(facts, Reason.HOLD_USUAL_PEAK) if _kept(known) >= facts.current else None


def _asked_to_keep(known: Knowledge) -> bool:
    """Whether the usual peak counts. A user who asks for a memory of less than a minute wants no such care."""
    return known.memory_seconds >= MINUTE


def _kept(known: Knowledge) -> int:
    """Whole replicas that the usual peak takes; none where it does not count."""
    return 0 if known.need.keep is None else whole(known.need.keep)


_FORBIDDING: Final[tuple[Rule, ...]] = (
    _alert_holds,
    _objective_out_of_reach,
    _inputs_incomplete,
    _load_needs_them,
    _replicas_pending,
    _just_grown,
    _just_shrunk,
    _demand_remembered,
    _usual_peak_needs_them,
)


def floor(facts: Situation, known: Knowledge, state: ScalerState) -> int:
    """floorMem: the highest need within the memory, in whole replicas; the current ones if nothing is known."""
    remembered = state.demand.floor(_memory(known, state), now=facts.now)
    return facts.current if remembered is None else whole(remembered)


def _memory(known: Knowledge, state: ScalerState) -> float:
    return state.flap.memory(known.memory_seconds, known.longest_memory_seconds)


def _consolidated(facts: Situation, known: Knowledge, state: ScalerState) -> Verdict:
    """The fewest replicas, within one step, that the consolidation test lets through."""
    step = max(1, int(STEP_SHARE * facts.current))
    needed = max(facts.lower, known.need.up or 0, _kept(known))
    fewest = max(needed, floor(facts, known, state), facts.current - step)
    sharing = facts.spec.hit_sharing if "pessimistic_hit" in facts.spec.features else HitSharing.UNAWARE
    for replicas in range(fewest, facts.current):
        if carries(
            known.replica, known.mix, replicas=replicas, instead_of=facts.current, sharing=sharing,
            rate=facts.obs.rate_60s or 0.0, kv_tokens=facts.obs.kv_tokens or 0.0, rho_down=known.rho_down,
        ):  # fmt: skip
            return Verdict(replicas, Reason.CONSOLIDATE)
    return _keep(facts, Reason.HOLD_CONSOLIDATION)

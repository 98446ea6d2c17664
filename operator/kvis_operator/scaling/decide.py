"""The capacity-fit scaler: one observation and what is remembered -> replicas, a reason, the numbers behind it.

The order of the rules is the policy: hold while blind; grow when the model asks; add one when symptoms say that the
model is wrong; otherwise shrink, if every condition for it holds. Alerts may raise, never lower. The result is within
[min, max] for every input, and the same call twice gives the same answer. (reference/scaling H5)
"""

from dataclasses import replace
from typing import Final

from kvis_operator.scaling.decision import Decision, Reason
from kvis_operator.scaling.guard import Guard
from kvis_operator.scaling.learning import Knowledge, learn
from kvis_operator.scaling.need import DEAD_BAND
from kvis_operator.scaling.shrink import Verdict, floor, shrink_or_hold
from kvis_operator.scaling.situation import Situation, situation
from kvis_operator.scaling.spec import ScalingSpec
from kvis_operator.scaling.state import ScalerState
from kvis_operator.scaling.victims import victims
from kvis_operator.signals import faults
from kvis_operator.signals.observation import Observation

SHORT_TICKS: Final = 2
NOISE_SECONDS: Final = 120.0  # two whole minutes in a row are no noise
LARGEST_STEP: Final = 4  # replicas per tick, or as many as there are
SLO_INFEASIBLE: Final = "SLOInfeasible"
SIGNAL_IMPLAUSIBLE: Final = "SignalImplausible"
METRICS_DEGRADED: Final = "MetricsDegraded"
METRICS_STALE: Final = "MetricsStale"
FLAP_GUARD: Final = "FlapGuard"
BUDGET_REACHED: Final = "BudgetReached"
REPLICAS_STUCK: Final = "ReplicasStuck"


def decide(
    spec: ScalingSpec, obs: Observation, state: ScalerState, *, now: float
) -> tuple[Decision, ScalerState]:
    """Replicas for the service at `now` (Unix seconds), and the state for the next call."""
    facts = situation(spec, obs, state, now)
    known, learned = learn(facts, state)
    verdict, guard = _wanted(facts, known, learned)
    learned = replace(learned, guard=guard, short_since=_short_since(facts, known, learned))
    bounded = _bounded(facts, _at_least_the_alert_floor(facts, verdict))
    decision = Decision(
        current=facts.current,
        replicas=bounded.replicas,
        reason=bounded.reason,
        numbers=_numbers(facts, known, learned),
        victims=victims(facts.obs.pods, facts.current - bounded.replicas),
        conditions=_conditions(facts, known, learned, verdict),
        held_until=bounded.held_until,
    )
    return decision, _after(learned, facts, known, decision)


def _wanted(facts: Situation, known: Knowledge, state: ScalerState) -> tuple[Verdict, Guard]:
    guard = state.guard
    if facts.blind:
        return _hold_blind(facts), guard
    if _grows(facts, known, state):
        assert known.need.up is not None, "only a known need grows"
        return Verdict(min(known.need.up, _step_limit(facts, state)), known.need.reason), guard.agreed()
    if reason := _alarm(facts, known, guard):
        return Verdict(facts.current + 1, reason), guard.fired(
            now=facts.now, start_seconds=facts.start_seconds
        )
    return shrink_or_hold(facts, known, state), guard


def _grows(facts: Situation, known: Knowledge, state: ScalerState) -> bool:
    """Whether the model's need is to be followed now.

    A shortfall that leaves half of the margin free must last for a tick: a noisy moment is over long before a pod
    has started. One that the usual spread of a minute's rate explains must last for two minutes. Any other is
    followed at once.
    """
    since = _short_since(facts, known, state)
    if since is None:
        return False
    felt = _felt(facts, known)
    if known.unproven and not felt:
        return False
    explained = known.need.rate is not None and state.spread.explains(known.need.rate)
    patience = NOISE_SECONDS if explained else (SHORT_TICKS - 1) * facts.spec.tick_seconds
    lasting = facts.now - since >= patience
    return lasting or felt or known.need.reason is Reason.BURST or _presses(facts, known)


def _felt(facts: Situation, known: Knowledge) -> bool:
    """Whether the shortfall shows already, whatever the model: in a queue, or in KV tokens for which there is no room.

    Not asked by the reason, which names the largest term: a wider margin makes another term the largest.
    """
    queue, held = known.need.backlog, known.need.memory
    queued = queue is not None and queue > DEAD_BAND
    return queued or (held is not None and held + facts.spec.spare_replicas > facts.current)


def _short_since(facts: Situation, known: Knowledge, state: ScalerState) -> float | None:
    if facts.blind or known.need.up is None or known.need.up <= facts.current:
        return None
    return facts.now if state.short_since is None else state.short_since


def _presses(facts: Situation, known: Knowledge) -> bool:
    """Whether the load takes more than half of the margin between the target utilisation and full."""
    if known.capacity is None or known.need.rate is None:
        return True
    halfway = (1.0 + known.rho_up) / 2.0
    return known.need.rate > halfway * known.capacity.rate * facts.current


def _hold_blind(facts: Situation) -> Verdict:
    if facts.ready == 0 and facts.pending:
        return Verdict(facts.current, Reason.HOLD_PENDING)
    seen_before = any(pod.sample_age_seconds is not None for pod in facts.obs.pods)
    return Verdict(facts.current, Reason.HOLD_METRICS_STALE if seen_before else Reason.HOLD_NO_DATA)


def _alarm(facts: Situation, known: Knowledge, guard: Guard) -> Reason | None:
    """The guard's reason to add one, unless help is on its way or cannot come."""
    awaited = (facts.pending or facts.stuck) and "pending_credit" in facts.spec.features
    if awaited or facts.current >= facts.upper:
        return None
    return guard.alarm(known.symptoms, now=facts.now, tick=facts.spec.tick_seconds)


def _step_limit(facts: Situation, state: ScalerState) -> int:
    """At most +4 or twice as many, counted from the start of the tick so that asking again adds nothing."""
    base = facts.current
    if (
        state.step_at is not None
        and state.step_base is not None
        and facts.now - state.step_at < facts.spec.tick_seconds
    ):
        base = state.step_base
    return max(facts.current, base + max(LARGEST_STEP, base))


def _at_least_the_alert_floor(facts: Situation, verdict: Verdict) -> Verdict:
    wanted = facts.spec.alert_floor
    if wanted is None or verdict.replicas >= wanted:
        return verdict
    return Verdict(wanted, Reason.ALERT_FLOOR)


def _bounded(facts: Situation, verdict: Verdict) -> Verdict:
    if verdict.replicas > facts.upper:
        budget = facts.spec.gpu_budget_replicas
        short = budget is not None and budget < facts.spec.max_replicas
        return Verdict(facts.upper, Reason.BUDGET_REACHED if short else Reason.LIMITED)
    if verdict.replicas < facts.lower:
        return Verdict(facts.lower, Reason.LIMITED)
    return verdict


def _numbers(facts: Situation, known: Knowledge, state: ScalerState) -> dict[str, float]:
    """The numbers behind the decision; unknown ones are left out."""
    obs, best, mix = facts.obs, known.capacity, known.mix
    numbers: dict[str, float | None] = {
        "rate_60s": obs.rate_60s,
        "rate_expected": known.need.rate,
        "waiting": obs.waiting,
        "kv_usage": obs.kv_usage,
        "kv_tokens": obs.kv_tokens,
        "ttft_p95_seconds": obs.ttft_p95_seconds,
        "tpot_p95_seconds": obs.tpot_p95_seconds,
        "preemptions_per_request": obs.preemptions_per_request,
        "need_up": known.need.up,
        "need_down": known.need.down,
        "need_keep": known.need.keep,
        "usual_peak": known.usual_peak,
        "need_memory": known.need.memory,
        "backlog": known.need.backlog,
        "floor_memory": floor(facts, known, state),
        "busy_share": known.busy_share,
        "rho_up": known.rho_up,
        "rho_down": known.rho_down,
        "memory_seconds": state.flap.memory(known.memory_seconds, known.longest_memory_seconds),
        "start_seconds": facts.start_seconds,
        "ready": facts.ready,
        "fresh": facts.fresh_ready,
        "step_a": known.step.a,
        "step_p": known.step.p,
        "step_d": known.step.d,
        "step_c": known.step.c,
        "fit_ticks": state.fit.ticks,
        "fit_residual": state.fit.residual,
    }
    if best is not None:
        numbers |= {
            "batch": best.batch,
            "batch_max": best.batch_max,
            "replica_rate": best.rate,
            "itl_seconds": best.itl_seconds,
            "best_tpot_seconds": best.lowest_itl_seconds,
        }
    if mix is not None:
        numbers |= {
            "input_tokens": mix.input_tokens,
            "output_tokens": mix.output_tokens,
            "hit_rate": mix.hit_rate,
        }
    return {name: float(value) for name, value in numbers.items() if value is not None}


def _conditions(facts: Situation, known: Knowledge, state: ScalerState, verdict: Verdict) -> frozenset[str]:
    kinds = {faults.kind(fault) for fault in facts.obs.faults}
    infeasible = known.capacity is not None and not known.capacity.feasible
    missed_at_most = facts.current >= facts.upper and state.guard.slo_since is not None
    holding = {
        SLO_INFEASIBLE: infeasible or missed_at_most,
        SIGNAL_IMPLAUSIBLE: bool(kinds & faults.IMPLAUSIBLE),
        METRICS_DEGRADED: bool(kinds & faults.DEGRADED),
        METRICS_STALE: facts.blind and facts.ready > 0,
        FLAP_GUARD: state.flap.factor > 1 and known.longest_memory_seconds > known.memory_seconds,
        BUDGET_REACHED: verdict.replicas > facts.upper and facts.upper < facts.spec.max_replicas,
        REPLICAS_STUCK: facts.stuck,
    }
    return frozenset(name for name, holds in holding.items() if holds)


def _after(state: ScalerState, facts: Situation, known: Knowledge, decision: Decision) -> ScalerState:
    """The state once the decision is taken. Moves that only obey the bounds are no flapping."""
    state = replace(state, desired=decision.replicas)
    change = decision.replicas - decision.current
    if change == 0:
        return state
    now = facts.now
    own = decision.reason not in (Reason.LIMITED, Reason.BUDGET_REACHED)
    direction = 1 if change > 0 else -1
    flap = state.flap.changed(direction, now=now, memory=known.memory_seconds) if own else state.flap
    if change < 0:
        return replace(state, flap=flap, down_at=now)
    fresh_tick = state.step_at is None or now - state.step_at >= facts.spec.tick_seconds
    return replace(
        state,
        flap=flap,
        up_at=now,
        step_at=now if fresh_tick else state.step_at,
        step_base=decision.current if fresh_tick else state.step_base,
    )

"""From one observation to what the scaler knows: request shape, step law, symptoms, need.

Only an observation newer than the last one teaches anything, so deciding twice on the same one changes nothing.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from kvis_operator.scaling.capacity import LONGEST_REQUEST, SHORTEST_REQUEST, Capacity, Mix, Replica, capacity
from kvis_operator.scaling.demand import bucket_width
from kvis_operator.scaling.guard import Symptoms, symptoms
from kvis_operator.scaling.need import Load, Need, need
from kvis_operator.scaling.situation import Situation
from kvis_operator.scaling.spec import ScalingSpec, StepTime
from kvis_operator.scaling.state import ScalerState
from kvis_operator.scaling.step_time import StepFit
from kvis_operator.signals.observation import Observation, PodPhase

# Half of both costs 5-14 % less on recorded days and step-downs in simulation, but answers 20 % noise about a
# constant load and meets the second of two bursts unprepared.
SHORTEST_MEMORY_SECONDS: Final = 1800.0
MEMORY_STARTS: Final = 10.0
DISTRUST_MARGIN: Final = 0.05  # off rho while the fit explains the steps badly
LOWEST_RHO: Final = 0.60
DRIFT: Final = math.log(1.2)  # means closer than this differ by chance
PROVEN_TICKS: Final = 4.0  # of step windows, after which the fit has left a wrong prior behind
PROVING_SECONDS: Final = 240.0  # the longest that model growth waits for them
SHIFT: Final = math.log(1.5)  # means this far apart are a shift of the mix: the long one is history


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the rules reason with."""

    replica: Replica
    step: StepTime
    mix: Mix | None
    capacity: Capacity | None
    need: Need
    symptoms: Symptoms
    busy_share: float | None
    unproven: bool  # the step law is still the prior's, and measurements are on their way
    rho_up: float
    rho_down: float
    memory_seconds: float  # without the flap guard


def learn(facts: Situation, state: ScalerState) -> tuple[Knowledge, ScalerState]:
    """What is known at this tick, and the state that remembers it."""
    spec, obs, now = facts.spec, facts.obs, facts.now
    new = state.observed_at is None or obs.at > state.observed_at
    fit = _fitted(facts, state) if new else state.fit
    mix = _mix(spec, obs, state.mix)
    step = fit.best(spec.prior, now=now) if "fit" in spec.features else spec.prior
    replica = Replica(
        step,
        obs.kv_capacity_tokens or spec.kv_capacity_tokens,
        min(spec.max_num_seqs, obs.max_num_seqs or spec.max_num_seqs),
        spec.tpot_slo_seconds,
    )
    margin = state.guard.margin + (DISTRUST_MARGIN if fit.distrusted(now) else 0.0)
    rho_up, rho_down = _reduced(spec.rho_up, margin), _reduced(spec.rho_down, margin)
    wanted, best = _need(facts, replica, mix, rho_up, rho_down)
    busy = _busy_share(facts, best)
    reachable = best is None or best.feasible  # more replicas cannot shorten a step that is too long alone
    tpot_slo = spec.tpot_slo_seconds if reachable else None
    seen = symptoms(obs, ttft_slo=spec.ttft_slo_seconds, tpot_slo=tpot_slo, busy_share=busy)
    memory = memory_seconds(spec, facts.start_seconds)
    alerted_at = state.alerted_at if spec.alert_floor is None else now
    learned = replace(state, fit=fit, mix=mix, flap=state.flap.eased(now=now), alerted_at=alerted_at)
    if new and not facts.blind:
        since = now if state.learning_since is None else state.learning_since
        learned = replace(
            learned, guard=state.guard.seen(seen, now=now), observed_at=obs.at, learning_since=since
        )
    unproven = _is_unproven(facts, learned, memory)
    if wanted.down is not None and not facts.blind and not unproven:
        width = bucket_width(memory, spec.tick_seconds)
        learned = replace(learned, demand=state.demand.recorded(wanted.down, now=now, width=width))
    return Knowledge(
        replica, step, mix, best, wanted, seen, busy, unproven, rho_up, rho_down, memory
    ), learned


def _is_unproven(facts: Situation, state: ScalerState, memory: float) -> bool:
    """Whether a wrong prior could still decide: what it asks for would be paid for a whole demand memory.

    Waiting longer than that memory would cost more than it saves.
    """
    if "fit" not in facts.spec.features or state.fit.ticks >= PROVEN_TICKS or state.learning_since is None:
        return False
    ready = [pod for pod in facts.obs.pods if pod.phase is PodPhase.READY and pod.fresh]
    coming = any(pod.steps is not None or not pod.warm for pod in ready)
    return coming and facts.now - state.learning_since < min(PROVING_SECONDS, memory)


def memory_seconds(spec: ScalingSpec, start_seconds: float) -> float:
    """M: how long demand is remembered before shrinking. A given value counts as given, zero included."""
    if "memory" not in spec.features:
        return 0.0
    if spec.down_memory_seconds is not None:
        return spec.down_memory_seconds
    return max(SHORTEST_MEMORY_SECONDS, MEMORY_STARTS * start_seconds)


def _fitted(facts: Situation, state: ScalerState) -> StepFit:
    due = state.fit.at is None or facts.now - state.fit.at >= facts.spec.tick_seconds / 2
    windows = [pod.steps for pod in facts.obs.pods if pod.steps is not None and pod.warm and pod.fresh]
    return state.fit.updated(windows, facts.spec.prior, now=facts.now) if due else state.fit


def _mix(spec: ScalingSpec, obs: Observation, last: Mix | None) -> Mix | None:
    """Measured, else as last known, else the user's hint."""
    input_tokens = obs.input_tokens or (last.input_tokens if last else spec.input_tokens_hint)
    output_tokens = obs.output_tokens or (last.output_tokens if last else spec.output_tokens_hint)
    if obs.input_tokens and obs.output_tokens:
        input_tokens = _blended(obs.input_tokens, obs.recent_input_tokens)
        output_tokens = _blended(obs.output_tokens, obs.recent_output_tokens)
    if input_tokens is None or output_tokens is None:
        return last
    hit_rate = obs.hit_rate if obs.hit_rate is not None else (last.hit_rate if last else 0.0)
    if "hit" not in spec.features:
        hit_rate = 0.0
    return Mix(_plausible(input_tokens), _plausible(output_tokens), hit_rate)


def _plausible(tokens: float) -> float:
    return min(LONGEST_REQUEST, max(SHORTEST_REQUEST, tokens))


def _blended(long: float, recent: float | None) -> float:
    """The long mean, giving way to the recent one as the two drift apart."""
    if recent is None or recent <= 0:
        return long
    long, recent = _plausible(long), _plausible(recent)
    apart = abs(math.log(recent / long))
    share = min(1.0, max(0.0, (apart - DRIFT) / (SHIFT - DRIFT)))
    return long * math.exp(share * math.log(recent / long))


def _need(
    facts: Situation, replica: Replica, mix: Mix | None, rho_up: float, rho_down: float
) -> tuple[Need, Capacity | None]:
    spec, obs = facts.spec, facts.obs
    waiting = obs.waiting if "backlog" in spec.features else None
    load = Load(
        obs.rate_15s, obs.rate_60s, obs.rate_180s, waiting, obs.kv_tokens,
        spec.tick_seconds, replica.step.p,
    )  # fmt: skip
    best = capacity(replica, mix) if mix else None
    return need(load, mix, best, replica.kv_tokens, rho_up=rho_up, rho_down=rho_down), best


def _busy_share(facts: Situation, best: Capacity | None) -> float | None:
    """Load over what the ready replicas carry at most."""
    rate = facts.obs.rate_60s
    if rate is None or best is None or not best.feasible or not facts.ready:
        return None
    return rate / (facts.ready * best.rate)


def _reduced(rho: float, margin: float) -> float:
    return min(rho, max(LOWEST_RHO, rho - margin))

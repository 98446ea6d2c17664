"""From one observation to what the scaler knows: request shape, step law, symptoms, need.

Only an observation newer than the last one teaches anything, so deciding twice on the same one changes nothing.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from kvis_operator.scaling.capacity import LONGEST_REQUEST, SHORTEST_REQUEST, Capacity, Mix, Replica, capacity
from kvis_operator.scaling.demand import LONGEST_SECONDS, bucket_width
from kvis_operator.scaling.guard import Symptoms, symptoms
from kvis_operator.scaling.need import Load, Need, need, steady_rate
from kvis_operator.scaling.situation import Situation
from kvis_operator.scaling.spec import ScalingSpec, StepTime
from kvis_operator.scaling.spread import SIGMAS, RateSpread
from kvis_operator.scaling.state import ScalerState
from kvis_operator.scaling.step_time import StepFit
from kvis_operator.signals.observation import Observation, PodPhase
from kvis_operator.signals.pod_reading import SHAPE_SECONDS

# Noise is not what they are for (scaling/spread.py): they bridge the minutes between one burst and the next.
SHORTEST_MEMORY_SECONDS: Final = 600.0
MEMORY_STARTS: Final = 5.0
DISTRUST_MARGIN: Final = 0.05  # off rho while the fit explains the steps badly, or little was seen
LOWEST_RHO: Final = 0.60
DRIFT: Final = math.log(1.2)  # means closer than this differ by chance
PROVEN_TICKS: Final = 4.0  # of step windows, after which the fit has left a wrong prior behind
PROVING_SECONDS: Final = 240.0  # the longest that model growth waits for them
WHOLE_SHAPE_SECONDS: Final = 0.9 * SHAPE_SECONDS  # scrapes do not fit in exactly
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
    usual_peak: float | None  # requests/s
    unproven: bool  # the step law is still the prior's, and measurements are on their way
    rho_up: float
    rho_down: float
    memory_seconds: float  # without the flap guard
    longest_memory_seconds: float  # that the flap guard may make of it


def learn(facts: Situation, state: ScalerState) -> tuple[Knowledge, ScalerState]:
    """What is known at this tick, and the state that remembers it."""
    spec, obs, now = facts.spec, facts.obs, facts.now
    new = state.observed_at is None or obs.at > state.observed_at
    steady = steady_rate(obs.rate_60s, obs.rate_180s)
    learned = _measured(facts, state) if new else state
    step = learned.fit.best(spec.prior, now=now) if "fit" in spec.features else spec.prior
    replica, mix = _replica(facts, step), learned.mix
    margin = state.guard.margin + (DISTRUST_MARGIN if learned.fit.distrusted(now) else 0.0)
    rho_up = _reduced(spec.rho_up, margin)
    kept_margin = margin + (0.0 if _seen_in_full(obs) else DISTRUST_MARGIN)
    rho_down, rho_keep = _reduced(spec.rho_down, kept_margin), _reduced(spec.rho_up, kept_margin)
    memory = memory_seconds(spec, facts.start_seconds)
    best = capacity(replica, mix) if mix else None
    carried = _surely_carried(facts, replica, mix, best)
    if new:
        rate = None if facts.blind else steady
        spread = state.spread.seen(rate, carried, served=facts.served_seconds, now=now)
        learned = replace(learned, spread=spread)
    load = _load(facts, step, steady, learned.spread, carried, memory)
    wanted = need(
        load, mix, best, replica.kv_tokens, rho_up=rho_up, rho_down=rho_down, rho_keep=rho_keep,
        spare=spec.spare_replicas,
    )  # fmt: skip
    busy = _busy_share(facts, best)
    seen = _symptoms(facts, best, busy)
    alerted_at = state.alerted_at if spec.alert_floor is None else now
    learned = replace(learned, flap=state.flap.eased(now=now), alerted_at=alerted_at)
    if new and not facts.blind:
        learned = _noted(facts, learned, seen)
    unproven = _is_unproven(facts, learned, memory)
    if wanted.down is not None and not facts.blind and not unproven:
        width = bucket_width(memory, spec.tick_seconds)
        learned = replace(learned, demand=state.demand.recorded(wanted.down, now=now, width=width))
    longest = LONGEST_SECONDS if spec.down_memory_seconds is None else memory
    return Knowledge(
        replica,
        step,
        mix,
        best,
        wanted,
        seen,
        busy,
        load.usual_peak,
        unproven,
        rho_up,
        rho_down,
        memory,
        longest,
    ), learned


def _measured(facts: Situation, state: ScalerState) -> ScalerState:
    """With what a new observation says of steps and requests."""
    mix, seconds = _mix(facts, state)
    return replace(state, fit=_fitted(facts, state), mix=mix, mix_seconds=seconds)


def _noted(facts: Situation, state: ScalerState, seen: Symptoms) -> ScalerState:
    """With the symptoms of a new observation."""
    guard = state.guard.seen(seen, now=facts.now)
    if facts.pending and "pending_credit" in facts.spec.features:
        guard = guard.awaiting(now=facts.now)
    since = facts.now if state.learning_since is None else state.learning_since
    return replace(state, guard=guard, observed_at=facts.obs.at, learning_since=since)


def _replica(facts: Situation, step: StepTime) -> Replica:
    spec, obs = facts.spec, facts.obs
    kv_tokens = obs.kv_capacity_tokens or spec.kv_capacity_tokens
    ceiling = min(spec.max_num_seqs, obs.max_num_seqs or spec.max_num_seqs)
    return Replica(step, kv_tokens, ceiling, spec.tpot_slo_seconds)


def _symptoms(facts: Situation, best: Capacity | None, busy: float | None) -> Symptoms:
    spec = facts.spec
    reachable = best is None or best.feasible  # more replicas cannot shorten a step that is too long alone
    tpot_slo = spec.tpot_slo_seconds if reachable else None
    return symptoms(facts.obs, ttft_slo=spec.ttft_slo_seconds, tpot_slo=tpot_slo, busy_share=busy)


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
    return _usual_memory(start_seconds)


def _usual_memory(start_seconds: float) -> float:
    return max(SHORTEST_MEMORY_SECONDS, MEMORY_STARTS * start_seconds)


def _sigmas(spec: ScalingSpec, start_seconds: float) -> float:
    """Deviations that the usual peak counts. Who gives a shorter memory wants replicas back sooner in every sense.

    By the square: half the memory with half the deviations cost 2-4 % more on simulated days, for no attainment.
    """
    given = spec.down_memory_seconds
    return SIGMAS if given is None else SIGMAS * min(1.0, given / _usual_memory(start_seconds)) ** 2


def _fitted(facts: Situation, state: ScalerState) -> StepFit:
    due = state.fit.at is None or facts.now - state.fit.at >= facts.spec.tick_seconds / 2
    windows = [pod.steps for pod in facts.obs.pods if pod.steps is not None and pod.fresh]
    return state.fit.updated(windows, facts.spec.prior, now=facts.now) if due else state.fit


def _mix(facts: Situation, state: ScalerState) -> tuple[Mix | None, float]:
    """Measured, else as last known, else the user's hint; and how many seconds of requests it rests on."""
    spec, obs, last = facts.spec, facts.obs, state.mix
    input_tokens = obs.input_tokens or (last.input_tokens if last else spec.input_tokens_hint)
    output_tokens = obs.output_tokens or (last.output_tokens if last else spec.output_tokens_hint)
    if input_tokens is None or output_tokens is None:
        return last, state.mix_seconds
    hit_rate = obs.hit_rate if obs.hit_rate is not None else (last.hit_rate if last else 0.0)
    if "hit" not in spec.features:
        hit_rate = 0.0
    seconds = state.mix_seconds
    if obs.input_tokens and obs.output_tokens:
        kept, seconds = _remembered(facts, state)
        if last is not None:
            input_tokens += kept * (last.input_tokens - input_tokens)
            output_tokens += kept * (last.output_tokens - output_tokens)
            hit_rate += kept * (last.hit_rate - hit_rate)
        input_tokens = _blended(input_tokens, obs.recent_input_tokens)
        output_tokens = _blended(output_tokens, obs.recent_output_tokens)
    return Mix(_plausible(input_tokens), _plausible(output_tokens), hit_rate), seconds


def _seen_in_full(obs: Observation) -> bool:
    """Whether the shape of requests is measured over a whole window, which it is not after a restart of the operator.

    Until then the capacity moves by some percent for no reason: what is taken away is judged with a margin for that.
    """
    return obs.shape_seconds >= WHOLE_SHAPE_SECONDS


def _remembered(facts: Situation, state: ScalerState) -> tuple[float, float]:
    """The weight of the last shape beside the measured one, and the seconds that both rest on.

    What is measured may be of moments only, as after a restart of the operator. Memory fills the window up, as far
    as it goes, and gives way as the window fills: from tick to tick its weight falls to its share of all the seconds.
    """
    measured = facts.obs.shape_seconds
    if _seen_in_full(facts.obs) or state.observed_at is None:
        return 0.0, measured
    before = max(0.0, measured - max(0.0, facts.now - state.observed_at))
    older_before = max(0.0, state.mix_seconds - before)
    older = min(older_before, WHOLE_SHAPE_SECONDS - measured)
    if older <= 0:
        return 0.0, measured
    return older / (older + measured) * (older_before + before) / older_before, older + measured


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


def _surely_carried(
    facts: Situation, replica: Replica, mix: Mix | None, best: Capacity | None
) -> float | None:
    """Requests/s that one replica carries, not counting on requests that got shorter a moment ago.

    The shape of requests follows the last two minutes when they are far off the last ten, which few requests are now
    and then by chance. To grow for that is right; to take a replica away for it is not.
    """
    obs = facts.obs
    if mix is None or best is None or not best.feasible:
        return None
    longer = Mix(
        _plausible(max(mix.input_tokens, obs.input_tokens or 0.0)),
        _plausible(max(mix.output_tokens, obs.output_tokens or 0.0)),
        mix.hit_rate,
    )
    worst = capacity(replica, longer)
    return min(best.rate, worst.rate) if worst.feasible else best.rate


def _load(
    facts: Situation, step: StepTime, steady: float | None, spread: RateSpread, carried: float | None,
    memory: float,
) -> Load:  # fmt: skip
    spec, obs = facts.spec, facts.obs
    waiting = obs.waiting if "backlog" in spec.features else None
    return Load(
        obs.rate_15s,
        steady,
        waiting,
        obs.kv_tokens,
        spec.tick_seconds,
        step.p,
        spread.usual_peak(memory, _sigmas(spec, facts.start_seconds)),
        None if carried is None else spread.usually_carried(carried),
    )


def _busy_share(facts: Situation, best: Capacity | None) -> float | None:
    """Load over what the ready replicas carry at most."""
    rate = facts.obs.rate_60s
    if rate is None or best is None or not best.feasible or not facts.ready:
        return None
    return rate / (facts.ready * best.rate)


def _reduced(rho: float, margin: float) -> float:
    return min(rho, max(LOWEST_RHO, rho - margin))

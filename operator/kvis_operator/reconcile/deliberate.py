"""From a scene to what shall be: replicas, their writer, whom to stop, caps. Pure but for the memory it is
given.

The scaler and the cap law decide at ticks only. Here their answers meet who may write: a mode, a pause, a
person's `kubectl scale`, an autoscaler.
"""

from dataclasses import dataclass, replace

from kvis_operator.api.v1alpha1 import ScalingMode, TuningMode
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.intake import Accepted
from kvis_operator.reconcile.world import LoopTimes, Memory
from kvis_operator.rollout.replicas import Standing, Writer, standing
from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.spec import ScalingSpec, StepTime
from kvis_operator.signals.observation import Observation, PodPhase
from kvis_operator.tuning.admission import CapDecision, CapSpec, CapState, decide_cap

UNKNOWN_LENGTH = 1024
"""Tokens of a sequence where neither the model nor a hint tells; only until a pod reports its capacity."""
SHRINKING_POINTS = 5
"""Percent below the target utilisation that the remaining replicas must stay at after one is given up."""


@dataclass(frozen=True, slots=True)
class Intent:
    """`replicas` is what the children shall have.

    `write` is what `spec.replicas` must become; None: leave it.
    """

    replicas: int
    write: int | None
    standing: Standing
    caps: tuple[CapDecision, ...] = ()  # to be set now


def deliberate(scene: Scene, subject: Accepted, memory: Memory, times: LoopTimes) -> Intent:
    spec = subject.service.spec
    current, before = scene.replicas_field, memory.written
    judged, memory.written = standing(
        current,
        before,
        follows_field=follows_field(scene, subject),
        now=scene.now,
        hold_seconds=times.manual_hold,
    )
    lower, upper = spec.scaling.min_replicas, spec.scaling.upper_bound
    followed = lower if current is None else current
    if scene.is_tick:
        _decide_replicas(scene, subject, memory, times, judged, followed=_within(followed, lower, upper))
    caps = _decide_caps(scene, subject, memory) if scene.is_tick else ()
    if judged.writer is Writer.FIELD:
        once = lower if current is None and not spec.paused else None
        return Intent(followed, once, judged, caps)
    target = _within(memory.decision.replicas if memory.decision else followed, lower, upper)
    if judged.taken_back is not None and target < judged.taken_back and not _is_complete(memory.observation):
        memory.written = before  # asked again at the next tick
        judged = Standing(Writer.PERSON, follow=current)
    if judged.writer is Writer.PERSON:
        return Intent(_within(followed, lower, upper), None, judged, caps)
    return Intent(target, None if target == current else target, judged, caps)


def _is_complete(seen: Observation | None) -> bool:
    """Whether every ready pod was read: without that nothing shrinks, not even back to what it was."""
    return seen is not None and 0 < seen.ready == seen.fresh_ready


def follows_field(scene: Scene, subject: Accepted) -> bool:
    spec = subject.service.spec
    is_scaled = bool(scene.autoscalers or scene.child_autoscalers)
    return spec.paused or spec.scaling.mode is not ScalingMode.AUTO or is_scaled


def scaling_spec(subject: Accepted, times: LoopTimes) -> ScalingSpec:
    spec, plan, profile = subject.service.spec, subject.plan, subject.profile
    prior = profile.step_time
    utilization = spec.scaling.target_utilization
    capacity = plan.kv_capacity_tokens or plan.max_num_seqs * (plan.max_model_len or UNKNOWN_LENGTH)
    return ScalingSpec(
        min_replicas=spec.scaling.min_replicas,
        max_replicas=spec.scaling.upper_bound,
        prior=StepTime(a=prior.a, p=prior.p, d=prior.d, c=prior.c),
        kv_capacity_tokens=capacity,
        max_num_seqs=plan.max_num_seqs,
        ttft_slo_seconds=spec.slo.ttft_p95_seconds,
        tpot_slo_seconds=spec.slo.tpot_p95_seconds,
        input_tokens_hint=spec.workload.input_tokens,
        output_tokens_hint=spec.workload.output_tokens,
        start_seconds=profile.start_seconds,
        tick_seconds=times.tick,
        down_memory_seconds=spec.scaling.down_memory_seconds,
        spare_replicas=spec.scaling.spare_replicas,
        rho_up=utilization / 100,
        rho_down=(utilization - SHRINKING_POINTS) / 100,
    )


def _decide_replicas(
    scene: Scene, subject: Accepted, memory: Memory, times: LoopTimes, judged: Standing, *, followed: int
) -> None:
    """Where others write the field, the scaler starts from what stands there.

    A wish in Auto is not its own: it goes on from its own number, so that this is what it takes the wish
    back to.
    """
    if memory.observation is None:
        return
    is_wish = judged.writer is Writer.PERSON or judged.taken_back is not None
    own = memory.scaler.desired if is_wish else None
    state = replace(memory.scaler, desired=followed if own is None else own)
    memory.decision, memory.scaler = decide(
        scaling_spec(subject, times), memory.observation, state, now=scene.now
    )


def _decide_caps(scene: Scene, subject: Accepted, memory: Memory) -> tuple[CapDecision, ...]:
    """Cap decisions of all ready pods into the memory; returned are those to be carried out."""
    tuning = subject.service.spec.tuning
    observation = memory.observation
    if tuning.mode is TuningMode.OFF or observation is None:
        memory.cap_decisions = ()
        return ()
    memory.cap_decisions = _cap_decisions(scene, subject, memory, observation)
    if tuning.mode is TuningMode.RECOMMEND:
        return ()
    return tuple(d for d in memory.cap_decisions if d.cap is not None and d.cap != d.current)


def _cap_decisions(
    scene: Scene, subject: Accepted, memory: Memory, observation: Observation
) -> tuple[CapDecision, ...]:
    bounds = subject.service.spec.tuning.max_num_seqs
    ceiling = subject.plan.max_num_seqs
    minimum = min(bounds.min or 1, ceiling)
    batch = memory.decision.numbers.get("batch") if memory.decision else None
    spec = CapSpec(
        ceiling=ceiling,
        minimum=minimum,
        maximum=None if bounds.max is None else max(minimum, bounds.max),
        tpot_slo_seconds=subject.service.spec.slo.tpot_p95_seconds,
        slo_batch=None if batch is None else max(1, int(batch)),
        paused=subject.service.spec.paused,
    )
    decisions = []
    for pod in observation.pods:
        if pod.phase is PodPhase.READY and pod.fresh:
            state = memory.caps.get(pod.uid, CapState())
            decision, memory.caps[pod.uid] = decide_cap(spec, pod, observation, state, now=scene.now)
            decisions.append(decision)
    return tuple(decisions)


def _within(value: int, lower: int, upper: int) -> int:
    return max(lower, min(upper, value))

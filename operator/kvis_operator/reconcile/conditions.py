"""The conditions of a service, judged from one pass. Pure.

Messages hold no number that moves by itself: an unchanged service must not be written again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from kvis_operator.api.conditions import Condition, ConditionType, Reason, complete, set_condition, timestamp
from kvis_operator.api.v1alpha1 import ScalingMode, TuningMode
from kvis_operator.diagnose.pods import Fault, diagnose
from kvis_operator.observe.pods import pod_state
from kvis_operator.reconcile.deliberate import Intent
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.intake import Accepted, Refusal
from kvis_operator.reconcile.world import Memory
from kvis_operator.rollout.replicas import Writer
from kvis_operator.scaling.decision import Reason as ScalingReason
from kvis_operator.signals.observation import PodPhase


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition: `status` None is Unknown."""

    type: ConditionType
    status: bool | None
    reason: StrEnum
    message: str = ""


def judge(
    before: Sequence[Condition],
    scene: Scene,
    memory: Memory,
    *,
    intent: Intent | None,
    refusal: Refusal | None,
    fault: Fault | None,
) -> list[Condition]:
    """All known conditions. `refusal` None and `intent` given: the service is being served.

    `fault`: what the pass itself ran into; without one the pods are looked at.
    """
    fault = fault or diagnose(scene.pods, scene.deployment, now=scene.now)
    verdicts = [
        *_intake(scene, refusal),
        _ready(scene, intent, refusal, fault),
        _engine(scene, fault),
        _metrics(scene, memory),
    ]
    if intent is not None and isinstance(scene.subject, Accepted):
        verdicts += [_scaling(scene, scene.subject, memory, intent), _tuning(scene.subject, memory)]
    conditions: Sequence[Condition] = before
    for v in verdicts:
        conditions = set_condition(
            conditions, v.type, v.status, v.reason, v.message, generation=scene.generation, now=scene.now
        )
    return list(complete(conditions, generation=scene.generation, now=scene.now))


def ready_pods(scene: Scene) -> int:
    return sum(pod_state(pod).phase is PodPhase.READY for pod in scene.staying_pods)


def _intake(scene: Scene, refusal: Refusal | None) -> list[Verdict]:
    if refusal is not None and refusal.condition is ConditionType.ACCEPTED:
        return [Verdict(ConditionType.ACCEPTED, False, refusal.reason, refusal.message)]
    warning = scene.subject.warning if isinstance(scene.subject, Accepted) else ""
    accepted = Verdict(ConditionType.ACCEPTED, True, Reason.ACCEPTED, warning)
    if refusal is not None:
        return [accepted, Verdict(refusal.condition, False, refusal.reason, refusal.message)]
    if not isinstance(scene.subject, Accepted):
        return [accepted, Verdict(ConditionType.SIZED, True, Reason.SIZED)]
    plan = scene.subject.plan
    if not plan.is_shape_known:
        return [accepted, Verdict(ConditionType.SIZED, None, Reason.MODEL_SHAPE_UNKNOWN, plan.summary)]
    return [accepted, Verdict(ConditionType.SIZED, True, Reason.SIZED, plan.summary)]


def _ready(scene: Scene, intent: Intent | None, refusal: Refusal | None, fault: Fault | None) -> Verdict:
    if refusal is not None or intent is None:
        is_accepted = refusal is None or refusal.condition is not ConditionType.ACCEPTED
        reason = Reason.NOT_SIZED if is_accepted else Reason.NOT_ACCEPTED
        return Verdict(ConditionType.READY, False, reason, refusal.message if refusal else "")
    if intent.replicas == 0:
        return Verdict(ConditionType.READY, False, Reason.SCALED_TO_ZERO, "spec.replicas is 0")
    subject = scene.subject
    fewest = intent.replicas
    if isinstance(subject, Accepted):
        fewest = min(fewest, subject.service.spec.scaling.min_replicas)
    serving = ready_pods(scene)
    if serving >= fewest:
        return Verdict(
            ConditionType.READY, True, Reason.READY, f"at least {fewest} of {fewest} wanted pods serve"
        )
    text = f"{serving} of the fewest {fewest} pods serve"
    if fault is not None:
        return Verdict(ConditionType.READY, False, Reason.REPLICAS_UNAVAILABLE, f"{text}: {fault.message}")
    return Verdict(ConditionType.READY, False, Reason.PROGRESSING, text)


def _engine(scene: Scene, fault: Fault | None) -> Verdict:
    if fault is not None:
        return Verdict(ConditionType.ENGINE_HEALTHY, False, fault.reason, fault.message)
    if not scene.staying_pods:
        return Verdict(ConditionType.ENGINE_HEALTHY, None, Reason.NO_PODS)
    if ready_pods(scene) == 0:
        return Verdict(ConditionType.ENGINE_HEALTHY, None, Reason.STARTING)
    return Verdict(ConditionType.ENGINE_HEALTHY, True, Reason.HEALTHY)


def _metrics(scene: Scene, memory: Memory) -> Verdict:
    seen = memory.observation
    if seen is None or seen.ready == 0:
        return Verdict(ConditionType.METRICS_FRESH, None, Reason.METRICS_MISSING, "no ready pod to read from")
    stale = seen.ready - seen.fresh_ready
    if stale:
        text = f"{stale} of {seen.ready} ready pods give no recent sample: nothing shrinks meanwhile"
        return Verdict(ConditionType.METRICS_FRESH, False, Reason.METRICS_STALE, text)
    faults = ", ".join(sorted(seen.faults))
    return Verdict(ConditionType.METRICS_FRESH, True, Reason.FRESH, f"noticed: {faults}" if faults else "")


def _scaling(scene: Scene, subject: Accepted, memory: Memory, intent: Intent) -> Verdict:
    spec = subject.service.spec
    if spec.paused:
        return Verdict(ConditionType.SCALING_ACTIVE, False, Reason.PAUSED, "spec.paused is true")
    others = (*scene.autoscalers, *scene.child_autoscalers)
    if others:
        target = "this service" if scene.autoscalers else "its Deployment"
        text = (
            f"HorizontalPodAutoscaler {', '.join(others)} targets {target}: it scales, KVIS only recommends"
        )
        return Verdict(ConditionType.SCALING_ACTIVE, False, Reason.EXTERNALLY_SCALED, text)
    match spec.scaling.mode:
        case ScalingMode.MANUAL:
            return Verdict(ConditionType.SCALING_ACTIVE, False, Reason.MANUAL, "spec.replicas is followed")
        case ScalingMode.RECOMMEND:
            text = "see status.recommendation; spec.replicas is followed"
            return Verdict(ConditionType.SCALING_ACTIVE, False, Reason.RECOMMEND_ONLY, text)
        case ScalingMode.AUTO:
            return _automatic(memory, intent)
        case never:
            assert_never(never)


def _automatic(memory: Memory, intent: Intent) -> Verdict:
    if intent.standing.writer is Writer.PERSON:
        held = intent.standing.held_until
        until = timestamp(held) if held is not None else "the pods' metrics are complete"
        text = f"spec.replicas was set to {intent.standing.follow} by somebody, followed until {until}"
        return Verdict(ConditionType.SCALING_ACTIVE, False, Reason.MANUAL_HOLD, text)
    decision = memory.decision
    if decision is None:
        return Verdict(ConditionType.SCALING_ACTIVE, True, Reason.ACTIVE)
    noted = ", ".join(sorted(decision.conditions))
    return Verdict(ConditionType.SCALING_ACTIVE, True, _stable(decision.reason), noted)


def _stable(reason: ScalingReason) -> StrEnum:
    """Reasons to act are told by decisions and events; as a condition they would flicker with each tick."""
    held = reason.value.startswith(("Hold", "Cooldown")) or reason in (
        ScalingReason.FLAP_GUARD,
        ScalingReason.LIMITED,
    )
    return reason if held else Reason.ACTIVE


def _tuning(subject: Accepted, memory: Memory) -> Verdict:
    spec = subject.service.spec
    if spec.paused:
        return Verdict(ConditionType.TUNING_ACTIVE, False, Reason.PAUSED, "spec.paused is true")
    match spec.tuning.mode:
        case TuningMode.OFF:
            return Verdict(ConditionType.TUNING_ACTIVE, False, Reason.OFF)
        case TuningMode.RECOMMEND:
            return Verdict(ConditionType.TUNING_ACTIVE, False, Reason.RECOMMEND_ONLY)
        case TuningMode.AUTO:
            if memory.admin_error:
                return Verdict(
                    ConditionType.TUNING_ACTIVE, False, Reason.ADMIN_UNREACHABLE, memory.admin_error
                )
            return Verdict(ConditionType.TUNING_ACTIVE, True, Reason.ACTIVE)
        case never:
            assert_never(never)

"""Builders of what a pass looks at: a service as the API server has it, its pods, what is remembered."""

from __future__ import annotations

from typing import Any

from kube_objects import a_deployment, a_kube_pod
from kvis_operator.api.status import Status
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.intake import Accepted, read
from kvis_operator.reconcile.world import Memory
from kvis_operator.scaling.decision import Decision, Reason
from service_builders import a_manifest, a_table

NOON = 1_800_000_000.0


def a_body(*, status: dict[str, Any] | None = None, generation: int = 1, **spec: Any) -> dict[str, Any]:
    body = a_manifest(**spec)
    body["metadata"] |= {"resourceVersion": "7", "generation": generation, "uid": "uid-0"}
    return {**body, "status": status or {}}


def a_scene(
    *,
    pods: tuple[dict[str, Any], ...] = (),
    autoscalers: tuple[str, ...] = (),
    child_autoscalers: tuple[str, ...] = (),
    is_tick: bool = False,
    now: float = NOON,
    deployed: int | None = None,
    **spec: Any,
) -> Scene:
    body = a_body(**spec)
    children = () if deployed is None else (a_deployment(replicas=deployed),)
    return Scene(
        now=now,
        steady=now,
        service=body,
        subject=read(body, a_table()),
        children=children,
        pods=pods,
        autoscalers=autoscalers,
        child_autoscalers=child_autoscalers,
        is_tick=is_tick,
    )


def accepted(scene: Scene) -> Accepted:
    assert isinstance(scene.subject, Accepted)
    return scene.subject


def a_memory(status: Status | None = None, *, decision: Decision | None = None) -> Memory:
    memory = Memory.restore(status.to_dict() if status else None)
    memory.decision = decision
    return memory


def a_decision(
    current: int = 1, replicas: int = 1, reason: Reason = Reason.WITHIN_CAPACITY, **numbers: float
) -> Decision:
    return Decision(current=current, replicas=replicas, reason=reason, numbers=numbers)


def ready_pods(count: int) -> tuple[dict[str, Any], ...]:
    return tuple(a_kube_pod(f"pod-{number}", ready=True) for number in range(count))

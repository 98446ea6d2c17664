"""Carrying out an intent, in the order that makes a crash at any point harmless.

Remember the new number of replicas, then write it, then mark whom a scale-in takes, and only when the marks
have come back through the watch shrink the Deployment: the ReplicaSet then takes exactly those pods, and
each finishes its streams before it ends. Every write is made for the version of the object that was looked
at.
"""

import logging
from dataclasses import dataclass, replace

from kvis_kv.flags import ADMIN_PORT_NUMBER
from kvis_operator.cluster.apply import TookBack, carry_out
from kvis_operator.cluster.resources import SERVICES
from kvis_operator.cluster.runtime_admin import AdminCallError
from kvis_operator.cluster.scale import mark_victims, write_replicas
from kvis_operator.cluster.status import patch_status
from kvis_operator.observe.cluster import Body
from kvis_operator.observe.pods import PodEndpoint, endpoint
from kvis_operator.reconcile.deliberate import Intent
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.intake import Accepted
from kvis_operator.reconcile.world import Memory, World
from kvis_operator.render.labels import FINGERPRINT
from kvis_operator.render.objects import Wanted, render
from kvis_operator.rollout.children import plan_children
from kvis_operator.rollout.replicas import wrote
from kvis_operator.rollout.template import keep_template
from kvis_operator.rollout.victims import choose, cost_changes
from kvis_operator.scaling.victims import victims
from kvis_operator.tuning.admission import CapDecision

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass has done. `version` is the service's resource version after our own writes."""

    version: str
    replicas_written: int | None = None
    took_back: tuple[TookBack, ...] = ()
    caps: tuple[CapDecision, ...] = ()  # as applied by the pods
    is_waiting: bool = False  # a next step follows as soon as a watch shows the last one


async def act(world: World, scene: Scene, subject: Accepted, memory: Memory, intent: Intent) -> Outcome:
    outcome = Outcome(version=scene.service["metadata"]["resourceVersion"])
    if subject.service.spec.paused:
        return outcome
    if intent.write is not None:
        version = await _write_replicas(world, scene, memory, intent.write)
        outcome = replace(outcome, version=version, replicas_written=intent.write)
    children_replicas, is_waiting = await _prepare_shrinking(world, scene, memory, intent.replicas)
    took_back = await _apply_children(world, scene, subject, children_replicas)
    caps = await _set_caps(world, scene, memory, intent.caps)
    return replace(outcome, took_back=took_back, caps=caps, is_waiting=is_waiting)


async def _write_replicas(world: World, scene: Scene, memory: Memory, replicas: int) -> str:
    """Remembered in status before it is written: a crash between the two is not taken for somebody's wish."""
    memory.written = wrote(replicas, before=scene.replicas_field)
    status = dict(scene.service.get("status") or {})
    status["scaler"] = {**(status.get("scaler") or {}), "written": memory.written.to_json()}
    version = scene.service["metadata"]["resourceVersion"]
    remembered = await patch_status(world.kube, scene.service, status, version)
    world.view.put(SERVICES.kind, remembered)
    written = await write_replicas(world.kube, remembered, replicas)
    decided = memory.decision if scene.replicas_field is not None else None
    reason = decided.reason.value if decided else "Initial"
    details = {"service": f"{scene.namespace}/{scene.name}", "from": scene.replicas_field, "to": replicas}
    logger.info("Wrote replicas", extra={**details, "reason": reason})
    return written


async def _prepare_shrinking(world: World, scene: Scene, memory: Memory, replicas: int) -> tuple[int, bool]:
    """Replicas that the Deployment may have now, and whether a smaller number waits for marks to be seen."""
    live: int | None = scene.deployment["spec"].get("replicas") if scene.deployment else None
    if live is not None and scene.child_autoscalers:
        return live, False  # the number there is another's; told once, by the condition
    if live is not None and replicas < live:
        changes = cost_changes(scene.pods, _victims(scene, memory, live - replicas))
        await mark_victims(world.kube, scene.namespace, changes)
        return (live, True) if changes else (replicas, False)
    if _is_settled(scene.deployment):  # before that, pods of an earlier choice may be on their way out
        await mark_victims(world.kube, scene.namespace, cost_changes(scene.pods, ()))
    return replicas, False


def _victims(scene: Scene, memory: Memory, count: int) -> tuple[str, ...]:
    decided = memory.decision.victims if memory.decision else ()
    ranked = victims(memory.observation.pods, len(memory.observation.pods)) if memory.observation else ()
    return choose(scene.staying_pods, (*decided, *ranked), count)


def _is_settled(deployment: Body | None) -> bool:
    status = (deployment or {}).get("status") or {}
    wanted = deployment["spec"].get("replicas") if deployment else None
    return wanted is not None and status.get("replicas", 0) == wanted


async def _apply_children(
    world: World, scene: Scene, subject: Accepted, replicas: int
) -> tuple[TookBack, ...]:
    rendered = render(
        Wanted(
            service=subject.service,
            plan=subject.plan,
            profile=subject.profile,
            replicas=replicas,
            public_key_pem=world.public_key_pem,
            operator_namespace=world.policy_namespace,
        )
    )
    desired = [keep_template(manifest, scene.deployment, wish=FINGERPRINT) for manifest in rendered]
    plan = plan_children(desired, scene.children, owner_uid=scene.uid)
    result = await carry_out(world.kube, plan, owner_uid=scene.uid)
    for body in result.written:
        world.view.put(body["kind"], body)
    return result.took_back


async def _set_caps(
    world: World, scene: Scene, memory: Memory, decisions: tuple[CapDecision, ...]
) -> tuple[CapDecision, ...]:
    """Tell the pods; one that cannot be told keeps its cap and is asked again at the next tick."""
    endpoints = {pod["metadata"]["name"]: endpoint(pod) for pod in scene.pods}
    applied = []
    for decision in decisions:
        pod = endpoints.get(decision.pod)
        if decision.cap is None:
            continue
        error = await _set_cap(world, pod, decision.cap) if pod else "it has no address"
        memory.admin_error = f"Pod {decision.pod}: {error}" if error else ""
        if not error:
            applied.append(decision)
    return tuple(applied)


async def _set_cap(world: World, pod: PodEndpoint, cap: int) -> str:
    """What went wrong; empty when the pod has the cap."""
    if world.admin is None:
        return "the operator has no key for the admin port"
    try:
        applied = await world.admin.set_cap(pod.url(ADMIN_PORT_NUMBER, ""), pod.uid, cap)
    except AdminCallError as error:
        logger.warning("Failed to set the cap", extra={"pod": pod.name, "error": str(error)})
        return str(error)
    logger.info("Set the cap", extra={"pod": pod.name, "cap": applied})
    return "" if applied == cap else f"it was told {cap} and set {applied}"

"""Carrying out a plan for children: server-side apply for what differs, deletes by UID for what is no
longer wanted.

A conflict is not forced blindly: a field of a child that somebody edited by hand is taken back, with an
event, since the resource is the place to say it. Replicas that an autoscaler holds never get here: they are
left as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvis_operator.cluster.client import Kube, KubeError, Manifest
from kvis_operator.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, child_resource
from kvis_operator.rollout.children import Apply, ChildrenPlan, Taken, plan_children


class NameTakenError(Exception):
    """A child cannot be created, for its name belongs to an object that is not ours."""

    def __init__(self, taken: Sequence[Taken]) -> None:
        self.taken = tuple(taken)
        super().__init__("; ".join(map(_described, taken)))


@dataclass(frozen=True, slots=True)
class TookBack:
    """A child whose fields others had changed, now as rendered again."""

    kind: str
    name: str
    conflict: str


@dataclass(frozen=True, slots=True)
class Carried:
    written: tuple[Manifest, ...]  # the objects as the API server answered
    took_back: tuple[TookBack, ...]


async def carry_out(kube: Kube, plan: ChildrenPlan, *, owner_uid: str) -> Carried:
    """Apply and delete what the plan says.

    Raises NameTakenError before anything is written when a name to be created exists already, KubeError with
    status 409 when an object has changed since it was planned: the next pass sees the newer one.
    """
    if plan.taken:
        raise NameTakenError(plan.taken)
    await _check_free_names(kube, plan.apply, owner_uid)
    written, took_back = [], []
    for step in sorted(plan.apply, key=_place):
        body, conflict = await _apply(kube, step)
        kind = step.manifest["kind"]
        written.append({**body, "kind": kind})
        if conflict:
            took_back.append(TookBack(kind, step.manifest["metadata"]["name"], conflict))
    for item in plan.delete:
        metadata = item["metadata"]
        await kube.delete(
            child_resource(item["kind"]), metadata["namespace"], metadata["name"], uid=metadata["uid"]
        )
    return Carried(tuple(written), tuple(took_back))


async def _check_free_names(kube: Kube, steps: Sequence[Apply], owner_uid: str) -> None:
    """Ask the API server itself: an object without our label has never been seen by the watches."""
    existing = []
    for step in steps:
        if step.live is None:
            metadata = step.manifest["metadata"]
            resource = child_resource(step.manifest["kind"])
            found = await kube.get(resource, metadata["namespace"], metadata["name"])
            if found is not None:
                existing.append({**found, "kind": resource.kind})
    taken = plan_children([s.manifest for s in steps], existing, owner_uid=owner_uid).taken
    if taken:
        raise NameTakenError(taken)


async def _apply(kube: Kube, step: Apply) -> tuple[Manifest, str]:
    """Apply one child; returns it and the conflict that was overruled, or nothing."""
    resource = child_resource(step.manifest["kind"])
    manifest = _pinned(step)
    disruptive = _shrinks(step)
    try:
        return await kube.apply(resource, manifest, force=False, disruptive=disruptive), ""
    except KubeError as error:
        if not _is_field_conflict(error):
            raise
        return await kube.apply(resource, manifest, force=True, disruptive=disruptive), error.message


def _pinned(step: Apply) -> Manifest:
    """The manifest, good only for the state of the object that it was planned from."""
    if step.live is None:
        return step.manifest
    version = step.live["metadata"]["resourceVersion"]
    return {**step.manifest, "metadata": {**step.manifest["metadata"], "resourceVersion": version}}


def _shrinks(step: Apply) -> bool:
    if step.live is None or step.manifest["kind"] != DEPLOYMENTS.kind:
        return False
    wanted, live = step.manifest["spec"].get("replicas"), step.live["spec"].get("replicas")
    return wanted is not None and live is not None and wanted < live


def _is_field_conflict(error: KubeError) -> bool:
    """Whether others manage fields that we set; a newer resource version is a conflict of another kind."""
    causes: Sequence[dict[str, Any]] = error.details.get("causes") or ()
    return error.status == 409 and any(cause.get("reason") == "FieldManagerConflict" for cause in causes)


def _place(step: Apply) -> int:
    """Configuration before the pods that mount it."""
    kinds = {CONFIG_MAPS.kind: 0, DEPLOYMENTS.kind: 2}
    return kinds.get(step.manifest["kind"], 1)


def _described(taken: Taken) -> str:
    owner = f"is controlled by {taken.owner}" if taken.owner else "was made by someone else"
    return f"{taken.kind} {taken.name} exists and {owner}"

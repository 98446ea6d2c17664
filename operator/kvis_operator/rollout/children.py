"""What to do to the children of one service: rendered objects + observed objects → what to apply, what to
delete.

Level-based: the same two inputs always give the same plan, and a plan that was carried out gives an empty
one. Nothing here knows how an object is written. A child is compared by two things: the stamp of the
manifest it was last applied from, which shows every change of ours, fields taken away included; and every
field of the manifest against the live object, which shows what others changed. Fields that only the API
server or others set are left alone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Manifest = Mapping[str, Any]

STAMP: Final = "kvis.dev/manifest"
"""Annotation: digest of the manifest that the object was last applied from."""


@dataclass(frozen=True, slots=True)
class Apply:
    """A manifest to apply, and the live object that it changes; None: it is to be created."""

    manifest: Manifest
    live: Manifest | None


@dataclass(frozen=True, slots=True)
class Taken:
    """A name that we need and that belongs to an object that is not ours."""

    kind: str
    name: str
    owner: str  # kind/name of its controller; empty where nothing controls it


@dataclass(frozen=True, slots=True)
class ChildrenPlan:
    apply: tuple[Apply, ...] = ()
    delete: tuple[Manifest, ...] = ()
    taken: tuple[Taken, ...] = ()  # while there is any, nothing is applied or deleted

    @property
    def is_empty(self) -> bool:
        return not (self.apply or self.delete or self.taken)


def plan_children(
    desired: Sequence[Manifest], observed: Sequence[Manifest], *, owner_uid: str
) -> ChildrenPlan:
    """`observed` holds the live objects under our label for this service, and any other that bears a
    desired name.
    """
    live = {_identity(item): item for item in observed}
    taken = [t for t in (_taken(live.get(_identity(d)), d, owner_uid) for d in desired) if t is not None]
    if taken:
        return ChildrenPlan(taken=tuple(taken))
    wanted = {_identity(manifest) for manifest in desired}
    return ChildrenPlan(
        apply=tuple(
            Apply(manifest, live.get(_identity(manifest)))
            for manifest in map(stamped, desired)
            if _needs_apply(manifest, live.get(_identity(manifest)))
        ),
        delete=tuple(
            item
            for identity, item in sorted(live.items())
            if identity not in wanted and controller_uid(item) == owner_uid and not _is_going(item)
        ),
    )


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with the digest of itself as an annotation.

    Without replicas, which is compared as a field: it follows an autoscaler's number without a write.
    """
    spec = {name: value for name, value in (manifest.get("spec") or {}).items() if name != "replicas"}
    text = json.dumps({**manifest, "spec": spec}, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), STAMP: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def is_in(wanted: Any, live: Any) -> bool:
    """Whether every field of `wanted` stands in `live` as wanted; what `live` has besides does not matter."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(is_in(value, live.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(live, list | tuple)
            and len(wanted) == len(live)
            and all(is_in(one, other) for one, other in zip(wanted, live, strict=True))
        )
    return bool(wanted == live) or (_is_blank(wanted) and _is_blank(live))


def controller_uid(item: Manifest) -> str | None:
    owner = _controller(item)
    return owner["uid"] if owner else None


def _needs_apply(manifest: Manifest, live: Manifest | None) -> bool:
    if live is None:
        return True
    return not (_is_going(live) or _is_predecessors(live, manifest) or is_in(manifest, live))


def _taken(live: Manifest | None, manifest: Manifest, owner_uid: str) -> Taken | None:
    if live is None or controller_uid(live) == owner_uid:
        return None
    if _is_predecessors(live, manifest) or _is_orphan(live, manifest):
        return None
    owner = _controller(live)
    return Taken(live["kind"], live["metadata"]["name"], f"{owner['kind']}/{owner['name']}" if owner else "")


def _is_predecessors(live: Manifest, manifest: Manifest) -> bool:
    """Whether it belongs to a deleted service of the same name: garbage collection is about to take it."""
    theirs, ours = _controller(live), _controller(manifest)
    if theirs is None or ours is None or theirs["uid"] == ours["uid"]:
        return False
    return bool((theirs["kind"], theirs["name"]) == (ours["kind"], ours["name"]))


def _is_orphan(live: Manifest, manifest: Manifest) -> bool:
    """Whether nobody controls it and it carries all our labels: left by a service deleted without its
    children.
    """
    labels = manifest["metadata"].get("labels") or {}
    return _controller(live) is None and bool(labels) and is_in(labels, live["metadata"].get("labels"))


def _controller(item: Manifest) -> Mapping[str, Any] | None:
    owners = item["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _identity(item: Manifest) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def _is_going(item: Manifest) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def _is_blank(value: Any) -> bool:
    """An empty map, list or text is stored as absent."""
    return value is None or value == {} or value == [] or value == ""

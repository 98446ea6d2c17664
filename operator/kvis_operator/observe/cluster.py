"""What the watches have shown of the cluster: services, their children, pods and foreign autoscalers.

Fed by handlers.py with single events and by whole listings. kopf's own indices are not used: an object that
goes away while a watch is interrupted stays in them for ever, whereas a listing here also removes.
Followers keep the view warm. A reconcile adds the answers to its own writes, so that the next one does not
work on what was before.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Body = Mapping[str, Any]

REMEMBERED_DELETIONS = 10_000
"""Deleted UIDs, so that a listing begun before a deletion cannot bring its object back."""

DROPPED_METADATA = ("managedFields", "selfLink")


class Key(NamedTuple):
    """A service's identity in the queue.

    A re-created one of the same name is told apart by its UID inside.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class ClusterView:
    """Bodies by kind and UID. `listed` holds the resource version of the last whole listing of each kind."""

    bodies: dict[str, dict[str, Body]] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)
    _deleted: dict[str, None] = field(default_factory=dict)
    _order: deque[str] = field(default_factory=deque)

    def put(self, kind: str, body: Body) -> bool:
        """Take over an object as a watch showed it; False when it is older than what is known, or was
        deleted.
        """
        uid = body["metadata"]["uid"]
        known = self.bodies.setdefault(kind, {}).get(uid)
        if uid in self._deleted or (known is not None and version(known) > version(body)):
            return False
        self.bodies[kind][uid] = reduced(body)
        return True

    def remove(self, kind: str, uid: str) -> None:
        self.bodies.get(kind, {}).pop(uid, None)
        if uid in self._deleted:
            return
        self._deleted[uid] = None
        self._order.append(uid)
        if len(self._order) > REMEMBERED_DELETIONS:
            del self._deleted[self._order.popleft()]

    def replace_all(self, kind: str, bodies: Iterable[Body], listing_version: int) -> None:
        """Take over a whole listing: what it lacks is gone, unless a watch showed it later than the listing.

        A listing older than the last one means that the store was put back to an earlier state: it is
        believed whole.
        """
        restored = listing_version < self.listed.get(kind, 0)
        before = self.bodies.get(kind, {})
        later = {} if restored else {u: b for u, b in before.items() if version(b) > listing_version}
        fresh = {b["metadata"]["uid"]: reduced(b) for b in bodies}
        if not restored:
            fresh = {uid: body for uid, body in fresh.items() if uid not in self._deleted}
        self.bodies[kind] = {**fresh, **later}
        self.listed[kind] = listing_version

    def services(self) -> Iterable[Body]:
        return tuple(self.bodies.get("KVInferenceService", {}).values())

    def service(self, key: Key) -> Body | None:
        return next((body for body in self.services() if key_of(body) == key), None)

    def owned(self, kind: str, owner_uid: str) -> list[Body]:
        """Objects of a kind whose controller is `owner_uid`, by name."""
        found = [b for b in self.bodies.get(kind, {}).values() if controller_uid(b) == owner_uid]
        return sorted(found, key=lambda body: body["metadata"]["name"])

    def labelled(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Body]:
        """Objects of a kind in a namespace that carry all of `labels`, by name."""
        found = [
            body
            for body in self.bodies.get(kind, {}).values()
            if body["metadata"].get("namespace") == namespace
            and labels.items() <= (body["metadata"].get("labels") or {}).items()
        ]
        return sorted(found, key=lambda body: body["metadata"]["name"])

    def autoscalers_of(self, namespace: str, kind: str, name: str) -> list[str]:
        """Names of the autoscalers that target an object."""
        return sorted(
            body["metadata"]["name"]
            for body in self.bodies.get("HorizontalPodAutoscaler", {}).values()
            if body["metadata"].get("namespace") == namespace
            and body["spec"].get("scaleTargetRef", {}).get("kind") == kind
            and body["spec"].get("scaleTargetRef", {}).get("name") == name
        )


def key_of(service: Body) -> Key:
    return Key(service["metadata"]["namespace"], service["metadata"]["name"])


def version(body: Body) -> int:
    """The resource version as a number, by which states of one object are ordered; 0 when it has none."""
    text = body["metadata"].get("resourceVersion") or "0"
    return int(text) if text.isdigit() else 0


def controller_uid(body: Body) -> str | None:
    owners = body["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)


def reduced(body: Body) -> Body:
    """The object without what nobody here reads and what can be larger than the rest of it."""
    metadata = {k: v for k, v in body["metadata"].items() if k not in DROPPED_METADATA}
    return {**body, "metadata": metadata}

"""What the watches have shown of the cluster: services, their children, pods and foreign autoscalers.

Fed by handlers.py with single events and by whole listings. kopf's own indices are not used: an object that
goes away while a watch is interrupted stays in them for ever, whereas a listing here also removes.
Followers keep the view warm. A reconcile adds the answers to its own writes, so that the next one does not
work on what was before.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kvis_operator.render.labels import SERVICE

Body = Mapping[str, Any]

REMEMBERED_DELETIONS = 10_000
"""Deleted UIDs, so that a listing begun before a deletion cannot bring its object back."""

Place = tuple[str, str, str, str]
"""(kind, by what, …): one entry of the view's index."""

DROPPED_METADATA = ("managedFields", "selfLink")


class Key(NamedTuple):
    """A service's identity in the queue.

    A re-created one of the same name is told apart by its UID inside.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClusterView:
    """Bodies by kind and UID, found by name, owner or service without a walk over all of them."""

    def __init__(self) -> None:
        self._bodies: dict[str, dict[str, Body]] = {}
        self._places: dict[Place, dict[str, None]] = {}  # UIDs at each place, in the order of their arrival
        self._listed: dict[str, int] = {}  # resource version of the last whole listing, by kind
        self._deleted: dict[str, None] = {}

    def get(self, kind: str, uid: str) -> Body | None:
        return self._bodies.get(kind, {}).get(uid)

    def put(self, kind: str, body: Body) -> bool:
        """Take over an object as a watch showed it; False when it is older than what is known, or was
        deleted.
        """
        uid = body["metadata"]["uid"]
        known = self.get(kind, uid)
        if uid in self._deleted or (known is not None and version(known) > version(body)):
            return False
        self._store(kind, reduced(body))
        return True

    def remove(self, kind: str, uid: str) -> None:
        self._drop(kind, uid)
        self._deleted[uid] = None
        if len(self._deleted) > REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]

    def replace_all(self, kind: str, bodies: Iterable[Body], listing_version: int) -> None:
        """Take over a whole listing: what it lacks is gone, unless a watch showed it later than the listing.

        A listing older than the last one means that the store was put back to an earlier state: it is
        believed.
        """
        restored = listing_version < self._listed.get(kind, 0)
        self._listed[kind] = listing_version
        listed = {body["metadata"]["uid"]: body for body in bodies}
        for uid, body in tuple(self._bodies.get(kind, {}).items()):
            if restored or (uid not in listed and version(body) <= listing_version):
                self._drop(kind, uid)
        for uid, body in listed.items():
            if restored:
                self._deleted.pop(uid, None)
            self.put(kind, body)

    def services(self) -> tuple[Body, ...]:
        return tuple(self._bodies.get("KVInferenceService", {}).values())

    def service(self, key: Key) -> Body | None:
        found = self._at(("KVInferenceService", "name", *key))
        return found[-1] if found else None

    def owned(self, kind: str, owner_uid: str) -> list[Body]:
        """Objects of a kind whose controller is `owner_uid`, by name."""
        return _by_name(self._at((kind, "owner", owner_uid, "")))

    def of_service(self, kind: str, key: Key) -> list[Body]:
        """Objects of a kind that carry the label of a service, by name; whoever owns them."""
        return _by_name(self._at((kind, "service", *key)))

    def autoscalers_of(self, namespace: str, kind: str, name: str) -> list[str]:
        """Names of the autoscalers that target an object."""
        found = self._at(("HorizontalPodAutoscaler", "target", namespace, f"{kind}/{name}"))
        return sorted(body["metadata"]["name"] for body in found)

    def _at(self, place: Place) -> list[Body]:
        bodies = self._bodies.get(place[0], {})
        return [bodies[uid] for uid in self._places.get(place, ())]

    def _store(self, kind: str, body: Body) -> None:
        uid = body["metadata"]["uid"]
        self._drop(kind, uid)
        self._bodies.setdefault(kind, {})[uid] = body
        for place in _places(kind, body):
            self._places.setdefault(place, {})[uid] = None

    def _drop(self, kind: str, uid: str) -> None:
        body = self._bodies.get(kind, {}).pop(uid, None)
        for place in _places(kind, body) if body is not None else ():
            uids = self._places[place]
            del uids[uid]
            if not uids:
                del self._places[place]


def _places(kind: str, body: Body) -> list[Place]:
    """Where an object is looked for."""
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    places = [(kind, "name", namespace, metadata["name"])]
    owner = controller_uid(body)
    if owner:
        places.append((kind, "owner", owner, ""))
    service = (metadata.get("labels") or {}).get(SERVICE)
    if service:
        places.append((kind, "service", namespace, service))
    target = (body.get("spec") or {}).get("scaleTargetRef")
    if target:
        places.append((kind, "target", namespace, f"{target.get('kind')}/{target.get('name')}"))
    return places


def _by_name(bodies: list[Body]) -> list[Body]:
    return sorted(bodies, key=lambda body: str(body["metadata"]["name"]))


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

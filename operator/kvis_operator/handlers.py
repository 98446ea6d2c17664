"""kopf's part: its watches feed the view and wake the queue. Nothing here decides, reads or writes the API.

Only `on.event` handlers are registered, all returning None: they make kopf write nothing (no finalizer, no
annotation, no status), so followers may run them too. What is missed here is caught by the timed relisting.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import kopf

from kvis_operator.cluster.resources import AUTOSCALERS, CHILDREN, PODS, SERVICES, WATCHED, Resource
from kvis_operator.observe.cluster import Body, ClusterView, Key, controller_uid, key_of
from kvis_operator.render import labels

SERVER_SECONDS: Final = 60
"""The API server ends each watch after this long; opening it again proves that it lives."""

SETTLE_SECONDS: Final = 0.1
"""Events of one change arrive together: one pass sees them all."""

Wake = Callable[..., None]


class Backoffs:
    """Endless delays (seconds) for kopf's own retries: an outage is waited out, not counted."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1, 2)
        while True:
            yield 3


def configure(settings: kopf.OperatorSettings) -> None:
    """Time-outs for every call of kopf, nothing posted, and server-side selection of what is ours."""
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = Backoffs()
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = SERVER_SECONDS + 15
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = SERVER_SECONDS + 10
    settings.watching.chunk_size = 500
    for resource in (*CHILDREN, PODS):
        settings.watching.label_selectors[_selector(resource)] = labels.managed_text()


def register(registry: kopf.OperatorRegistry, view: ClusterView, wake: Wake) -> None:
    """Connect the watches: each event first updates the view, then wakes the services that it concerns."""

    def handler_of(resource: Resource) -> Callable[..., Any]:
        async def handle(event: kopf.RawEvent, **_: Any) -> None:
            take(event["type"], resource, event["object"], view=view, wake=wake)

        return handle

    for resource in WATCHED:
        decorate = kopf.on.event(*_selector(resource), id=f"see_{resource.plural}", registry=registry)
        decorate(handler_of(resource))


def take(kind: str | None, resource: Resource, body: Body, *, view: ClusterView, wake: Wake) -> None:
    """One event: `kind` is None for an object of the first listing, else ADDED, MODIFIED or DELETED."""
    before = view.get(resource.kind, body["metadata"]["uid"])
    body = {"kind": resource.kind, "apiVersion": resource.api_version, **body}
    if kind == "DELETED":
        view.remove(resource.kind, body["metadata"]["uid"])
    elif not view.put(resource.kind, body):
        return
    if resource is SERVICES:
        if kind == "DELETED" or before is None or _asks_for_more(before, body):
            wake(key_of(body), fresh=True)
        return
    for key in concerned(resource, body, view):
        wake(key, after=SETTLE_SECONDS)


def concerned(resource: Resource, body: Body, view: ClusterView) -> Iterator[Key]:
    """The services that an event of a child, a pod or an autoscaler is about."""
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    if resource is AUTOSCALERS:
        target = body["spec"].get("scaleTargetRef") or {}
        if target.get("kind") in (SERVICES.kind, "Deployment"):
            yield Key(namespace, target["name"])
        return
    name = (metadata.get("labels") or {}).get(labels.SERVICE)
    if name:
        yield Key(namespace, name)
    owner = controller_uid(body)
    service = view.get(SERVICES.kind, owner) if owner else None
    if service is not None and service["metadata"]["name"] != name:
        yield key_of(service)


def _asks_for_more(before: Body, after: Body) -> bool:
    """Whether more than the status has changed: our own status writes must not wake us."""
    old, new = before["metadata"], after["metadata"]
    parts = ("generation", "deletionTimestamp", "annotations")
    return any(old.get(part) != new.get(part) for part in parts)


def _selector(resource: Resource) -> tuple[str, str, str] | tuple[str, str]:
    return (resource.group, resource.version, resource.plural) if resource.group else ("v1", resource.plural)

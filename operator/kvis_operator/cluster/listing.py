"""Whole listings of everything that is watched: the view's first filling, and what repairs it afterwards.

A watch may have been cut while an object went away; only a listing shows that. Shared by all services, so
its cost does not grow with their number.
"""

from collections.abc import Sequence

from kvis_operator.cluster.client import Kube, Manifest
from kvis_operator.cluster.resources import CHILDREN, PODS, WATCHED, Resource
from kvis_operator.render.labels import managed_text

Listing = tuple[Resource, list[Manifest], int]
"""A kind, its objects, and the resource version that the listing shows."""


async def list_everything(kube: Kube, namespaces: Sequence[str]) -> list[Listing]:
    """All watched kinds in `namespaces`, in all of them when there are none given."""
    return [await _list(kube, resource, namespaces) for resource in WATCHED]


async def _list(kube: Kube, resource: Resource, namespaces: Sequence[str]) -> Listing:
    selector = managed_text() if resource in (*CHILDREN, PODS) else None
    items: list[Manifest] = []
    versions = []
    for namespace in namespaces or (None,):
        found, version = await kube.list_all(resource, namespace=namespace, selector=selector)
        items += found
        versions.append(int(version) if version.isdigit() else 0)
    # What a later watch event of a namespace listed first has shown is kept: the oldest version counts.
    return resource, items, min(versions)

"""Writing a service's status: one merge patch of what differs, and none when nothing does.

Whether a difference is worth a write is decided in `reconcile/report.py`; here it is only computed and sent.
"""

from collections.abc import Mapping
from typing import Any

from kvis_operator.cluster.client import Kube, Manifest
from kvis_operator.cluster.resources import SERVICES


async def patch_status(kube: Kube, service: Manifest, status: Mapping[str, Any], version: str) -> Manifest:
    """Make the stored status equal to `status`, if the service still has the resource `version`."""
    metadata = service["metadata"]
    patch = {
        "metadata": {"resourceVersion": version},
        "status": merge_patch(service.get("status") or {}, status),
    }
    return await kube.merge(SERVICES, (metadata["namespace"], metadata["name"]), patch, subresource="status")


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns `before` into `after`; lists are replaced whole."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = merge_patch(old, value)
            if inner:
                patch[key] = inner
        elif value != old:
            patch[key] = value
    return patch

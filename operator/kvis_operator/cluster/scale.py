"""Writing replicas and marking the pods that a scale-in shall take.

Both pass the fence, and a decrease also looks at the live lease first. The value goes through the scale
subresource, the one thing of a resource's spec that the operator has a right to write.
"""

from collections.abc import Iterable

from kvis_operator.cluster.client import Kube, KubeError, Manifest
from kvis_operator.cluster.resources import PODS, SERVICES
from kvis_operator.rollout.victims import DELETION_COST, CostChange


async def write_replicas(kube: Kube, service: Manifest, replicas: int) -> str:
    """Set `spec.replicas`; returns the service's new resource version.

    KubeError 409 when the service has changed since: someone may have written the field.
    """
    metadata = service["metadata"]
    current = service["spec"].get("replicas")
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"replicas": replicas}}
    answer = await kube.merge(
        SERVICES,
        (metadata["namespace"], metadata["name"]),
        patch,
        subresource="scale",
        disruptive=current is not None and replicas < current,
    )
    version: str = answer["metadata"]["resourceVersion"]
    return version


async def mark_victims(kube: Kube, namespace: str, changes: Iterable[CostChange]) -> None:
    """Write the deletion costs; a pod that is gone by now needs none."""
    for change in changes:
        patch = {
            "metadata": {
                "uid": change.uid,
                "resourceVersion": change.resource_version,
                "annotations": {DELETION_COST: change.cost},
            }
        }
        try:
            await kube.merge(PODS, (namespace, change.name), patch)
        except KubeError as error:
            if error.status != 404:
                raise

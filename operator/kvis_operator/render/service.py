"""The Service that clients call: the public port alone, never the admin port."""

from typing import Any

from kvis_kv import flags
from kvis_operator.api.v1alpha1 import KVInferenceService
from kvis_operator.render.labels import selector
from kvis_operator.render.owner import child_metadata


def render_service(service: KVInferenceService) -> dict[str, Any]:
    port = {"name": "http", "port": flags.PUBLIC_PORT, "targetPort": "http", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(service),
        "spec": {"type": "ClusterIP", "selector": selector(service.metadata.name), "ports": [port]},
    }

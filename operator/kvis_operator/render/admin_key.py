"""The ConfigMap with the operator's public key, by which pods tell its calls from anybody else's.

A ConfigMap in the service's namespace, not a Secret: the key is public, and a new one reaches running pods
without a restart.
"""

from typing import Any

from kvis_kv import flags
from kvis_operator.api.v1alpha1 import KVInferenceService
from kvis_operator.render.labels import ADMIN_KEY_ROLE
from kvis_operator.render.owner import child_metadata


def render_admin_key(service: KVInferenceService, public_key_pem: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(service, ADMIN_KEY_ROLE),
        "data": {flags.ADMIN_KEY_CONFIGMAP_KEY: public_key_pem},
    }

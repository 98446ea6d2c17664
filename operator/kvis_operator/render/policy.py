"""Limits on what others may do to the pods: voluntary evictions, and who reaches which port."""

from typing import Any

from kvis_kv import flags
from kvis_operator.api.v1alpha1 import KVInferenceService
from kvis_operator.render.labels import NAME, OPERATOR_COMPONENT, selector
from kvis_operator.render.owner import child_metadata


def render_disruption_budget(service: KVInferenceService) -> dict[str, Any]:
    """One pod at a time. NOTE: not minAvailable, which would block node drains at one replica."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(service),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector(service.metadata.name)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def render_network_policy(service: KVInferenceService, *, operator_namespace: str) -> dict[str, Any]:
    """Clients to the public port, the operator to the admin port, nothing outward: no model is fetched."""
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}},
        "podSelector": {"matchLabels": {NAME: OPERATOR_COMPONENT}},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": child_metadata(service),
        "spec": {
            "podSelector": {"matchLabels": selector(service.metadata.name)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"ports": [{"port": flags.PUBLIC_PORT, "protocol": "TCP"}]},
                {"from": [operator], "ports": [{"port": flags.ADMIN_PORT_NUMBER, "protocol": "TCP"}]},
            ],
            "egress": [],
        },
    }

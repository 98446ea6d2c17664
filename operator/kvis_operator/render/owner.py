"""Metadata that every child carries: name, namespace, labels, and the owner it is collected with."""

from typing import Any

from kvis_operator.api.v1alpha1 import API_VERSION, KIND, KVInferenceService
from kvis_operator.render.labels import child_name, labels


def child_metadata(service: KVInferenceService, role: str | None = None) -> dict[str, Any]:
    return {
        "name": child_name(service.metadata.name, role),
        "namespace": service.metadata.namespace,
        "labels": labels(service.metadata.name),
        "ownerReferences": [owner_reference(service)],
    }


def owner_reference(service: KVInferenceService) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": service.metadata.name,
        "uid": service.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }

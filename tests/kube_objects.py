"""Builders of Kubernetes objects as the API server gives them: plain dicts; a test names what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CREATED = "2026-01-01T00:00:00Z"
OWNER = "uid-of-the-service"


def an_object(
    kind: str = "Service", name: str = "demo", *, owner: str | None = OWNER, **changes: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{kind}-{name}",
        "resourceVersion": "10",
        "labels": {"kvis.dev/service": "demo"},
        "creationTimestamp": CREATED,
    }
    if owner:
        reference = {"uid": owner, "controller": True, "kind": "KVInferenceService", "name": "demo"}
        metadata["ownerReferences"] = [reference]
    metadata |= changes.pop("metadata", {})
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata, **changes}


def a_kube_pod(
    name: str = "pod-0",
    *,
    ready: bool = False,
    phase: str = "Running",
    state: Mapping[str, Any] | None = None,
    last_state: Mapping[str, Any] | None = None,
    restarts: int = 0,
    annotations: Mapping[str, str] | None = None,
    conditions: tuple[dict[str, Any], ...] = (),
    deleted: bool = False,
    ip: str | None = "10.0.0.1",
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"annotations": dict(annotations or {})}
    if deleted:
        metadata["deletionTimestamp"] = CREATED
    container = {
        "name": "runtime",
        "ready": ready,
        "restartCount": restarts,
        "state": dict(state or {"running": {}}),
        "lastState": dict(last_state or {}),
    }
    status: dict[str, Any] = {
        "phase": phase,
        "containerStatuses": [container],
        "conditions": list(conditions),
    }
    if ready:
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
        status["conditions"].append(condition)
    if ip:
        status["podIP"] = ip
    return an_object("Pod", name, owner="uid-of-a-replicaset", metadata=metadata, status=status)


def a_deployment(*, replicas: int = 2, **changes: Any) -> dict[str, Any]:
    spec = {"replicas": replicas, "template": {"metadata": {}, "spec": {}}, **changes.pop("spec", {})}
    return an_object("Deployment", spec=spec, **changes)

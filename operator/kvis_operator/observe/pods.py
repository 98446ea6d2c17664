"""Pods as the deciding code knows them, from what Kubernetes says of them.

A pod counts as failed only for reasons that waiting does not cure, so that a slow start keeps its credit as
pending capacity and a crash loop loses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kvis_kv.flags import EXIT_CONFIG
from kvis_operator.signals.observation import PodPhase, PodState

HOPELESS = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Reasons for which a container waits that need somebody to change something."""


@dataclass(frozen=True, slots=True)
class PodEndpoint:
    """Where a pod can be asked: its address and the UID that its admin port wants to be named."""

    name: str
    uid: str
    address: str

    def url(self, port: int, path: str) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{port}{path}"


def pod_state(pod: Mapping[str, Any]) -> PodState:
    ready = _ready_since(pod)
    return PodState(
        name=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        phase=_phase(pod, is_ready=ready is not None),
        created_at=unix_seconds(pod["metadata"]["creationTimestamp"]),
        ready_at=ready,
    )


def endpoint(pod: Mapping[str, Any]) -> PodEndpoint | None:
    """None while the pod has no address, or has ended."""
    status = pod.get("status") or {}
    address = status.get("podIP")
    if not address or status.get("phase") in ("Failed", "Succeeded"):
        return None
    return PodEndpoint(pod["metadata"]["name"], pod["metadata"]["uid"], address)


def unix_seconds(text: str) -> float:
    """Kubernetes' RFC 3339 time in UTC, as Unix seconds."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _phase(pod: Mapping[str, Any], *, is_ready: bool) -> PodPhase:
    status = pod.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return PodPhase.FAILED
    if pod["metadata"].get("deletionTimestamp"):
        return PodPhase.DRAINING
    if is_ready:
        return PodPhase.READY
    return PodPhase.FAILED if _is_hopeless(status) else PodPhase.PENDING


def _ready_since(pod: Mapping[str, Any]) -> float | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            since = condition.get("lastTransitionTime")
            return unix_seconds(since) if since else unix_seconds(pod["metadata"]["creationTimestamp"])
    return None


def _is_hopeless(status: Mapping[str, Any]) -> bool:
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason") in HOPELESS:
            return True
        if (state.get("terminated") or {}).get("exitCode") == EXIT_CONFIG:
            return True
    return False

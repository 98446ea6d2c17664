"""What is wrong with a service's pods, in one sentence that says what would help.

Reads only what Kubernetes reports: container states, termination messages, scheduling conditions. The most
telling fault wins: an engine that explains itself before one that merely crashes, a crash before a pod that
waits.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kvis_kv.flags import EXIT_CONFIG
from kvis_operator.api.conditions import Reason

RECENT_SECONDS: Final = 600.0
"""A container that came back and has served this long is healthy again."""

IMAGE_REASONS: Final = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
CREATE_REASONS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    reason: Reason
    message: str


ORDER: Final[tuple[Reason, ...]] = (
    Reason.ENGINE_START_FAILED,
    Reason.OUT_OF_MEMORY,
    Reason.ENGINE_CRASHING,
    Reason.IMAGE_UNAVAILABLE,
    Reason.VOLUME_UNAVAILABLE,
    Reason.UNSCHEDULABLE,
    Reason.CREATE_REFUSED,
)


def diagnose(pods: Sequence[Pod], deployment: Mapping[str, Any] | None, *, now: float) -> Fault | None:
    """The worst fault among the pods that are to stay; None when there is none. `now` is Unix seconds."""
    faults = [fault for pod in pods if not _is_going(pod) for fault in _faults_of(pod, now)]
    faults += _refusals(deployment)
    return min(faults, key=lambda fault: ORDER.index(fault.reason), default=None)


def _faults_of(pod: Pod, now: float) -> Iterable[Fault]:
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for container in status.get("containerStatuses") or ():
        fault = _container_fault(name, container, now)
        if fault is not None:
            yield fault
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield _scheduling_fault(name, condition)


def _container_fault(pod: str, container: Mapping[str, Any], now: float) -> Fault | None:
    state = container.get("state") or {}
    waiting = (state.get("waiting") or {}).get("reason", "")
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    if waiting in IMAGE_REASONS:
        return Fault(Reason.IMAGE_UNAVAILABLE, f"Pod {pod}: {_waiting_text(state)}")
    if waiting in CREATE_REASONS:
        return Fault(Reason.CREATE_REFUSED, f"Pod {pod}: {_waiting_text(state)}")
    if not ended or (container.get("ready") and not _is_recent(ended, now)):
        return None
    return _ended_fault(pod, container, ended, is_looping=waiting == "CrashLoopBackOff")


def _ended_fault(
    pod: str, container: Mapping[str, Any], ended: Mapping[str, Any], *, is_looping: bool
) -> Fault | None:
    code = ended.get("exitCode", 0)
    if code == EXIT_CONFIG:
        return Fault(Reason.ENGINE_START_FAILED, f"Pod {pod}: {_explanation(ended)}")
    restarts = container.get("restartCount", 0)
    if ended.get("reason") == "OOMKilled":
        return Fault(
            Reason.OUT_OF_MEMORY,
            f"Pod {pod} was killed for exceeding its memory limit ({restarts} restarts): lower "
            "kvCache.memory or batching.maxNumSeqs, or use a profile with more memory",
        )
    if is_looping or (code != 0 and not container.get("ready")):
        return Fault(
            Reason.ENGINE_CRASHING,
            f"Pod {pod} ended with exit code {code} ({restarts} restarts): {_explanation(ended)}",
        )
    return None


def _scheduling_fault(pod: str, condition: Mapping[str, Any]) -> Fault:
    text = condition.get("message") or condition.get("reason") or "not scheduled"
    reason = Reason.VOLUME_UNAVAILABLE if "persistentvolumeclaim" in text.lower() else Reason.UNSCHEDULABLE
    return Fault(reason, f"Pod {pod}: {text}")


def _refusals(deployment: Mapping[str, Any] | None) -> list[Fault]:
    conditions = ((deployment or {}).get("status") or {}).get("conditions") or ()
    return [
        Fault(Reason.CREATE_REFUSED, f"Pods cannot be created: {condition.get('message', '')}")
        for condition in conditions
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True"
    ]


def _explanation(ended: Mapping[str, Any]) -> str:
    """What the container wrote to its termination log: our runtime's JSON, or the end of some other text."""
    text = (ended.get("message") or "").strip()
    if not text:
        return ended.get("reason") or "no message was left"
    try:
        said = json.loads(text)
    except ValueError:
        return text[-300:]
    if not isinstance(said, dict):
        return text[-300:]
    message = str(said.get("message") or said.get("reason") or text[-300:])
    field = said.get("field")
    return f"{field}: {message}" if field and str(field) not in message else message


def _waiting_text(state: Mapping[str, Any]) -> str:
    waiting = state["waiting"]
    return f"{waiting['reason']}: {waiting['message']}" if waiting.get("message") else str(waiting["reason"])


def _is_recent(ended: Mapping[str, Any], now: float) -> bool:
    finished = ended.get("finishedAt")
    if not finished:
        return False
    return now - datetime.fromisoformat(finished.replace("Z", "+00:00")).timestamp() < RECENT_SECONDS


def _is_going(pod: Pod) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))

"""What a fake pod shows at an age: pure, so that every misbehaviour can be checked without a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Phase(Enum):
    """What the pod's status says."""

    PULLING = "pulling"  # the image cannot be pulled
    STARTING = "starting"  # Running, not Ready
    READY = "ready"
    CRASHED = "crashed"  # waiting to be restarted
    ENDING = "ending"  # told to end, not Ready any more


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a pod behaves. Times in seconds since it started; None = never."""

    ready_after: float | None = 0.5  # None: never ready
    crash_every: float | None = None  # ends with an error, is restarted half a period later, and so on
    dies_after: float | None = None  # Ready until then, afterwards Running but never Ready again
    ends_after: float = 0.2  # from the deletion request to the end
    image_missing: bool = False

    def restarts(self, age: float) -> int:
        """How often its container has been restarted at an age."""
        return int(age // (1.5 * self.crash_every)) if self.crash_every else 0


def phase_of(behaviour: Behaviour, age: float, *, ending: bool) -> Phase:
    """The phase at an age."""
    if ending:
        return Phase.ENDING
    if behaviour.image_missing:
        return Phase.PULLING
    if behaviour.crash_every:
        age %= 1.5 * behaviour.crash_every
        if age >= behaviour.crash_every:
            return Phase.CRASHED
    if behaviour.dies_after is not None and age >= behaviour.dies_after:
        return Phase.STARTING
    is_ready = behaviour.ready_after is not None and age >= behaviour.ready_after
    return Phase.READY if is_ready else Phase.STARTING


def pod_status(
    manifest: dict[str, Any], phase: Phase, *, address: str, restarts: int, now: str
) -> dict[str, Any]:
    """The status that a kubelet would write for a pod in this phase."""
    containers = manifest["spec"]["containers"]
    is_ready = phase is Phase.READY
    running = phase in (Phase.STARTING, Phase.READY, Phase.ENDING)
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
        {"type": "Initialized", "status": "True", "lastTransitionTime": now},
        {"type": "ContainersReady", "status": str(is_ready), "lastTransitionTime": now},
        {"type": "Ready", "status": str(is_ready), "lastTransitionTime": now},
    ]
    return {
        "phase": "Pending" if phase is Phase.PULLING else "Running",
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": manifest["metadata"]["creationTimestamp"],
        "conditions": conditions,
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": is_ready,
                "started": running,
                "restartCount": restarts,
                "state": _state(phase, now),
                "lastState": _last_state(restarts, now),
            }
            for container in containers
        ],
    }


def _state(phase: Phase, now: str) -> dict[str, Any]:
    match phase:
        case Phase.PULLING:
            return {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        case Phase.CRASHED:
            return {
                "waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
            }
        case Phase.STARTING | Phase.READY | Phase.ENDING:
            return {"running": {"startedAt": now}}


def _last_state(restarts: int, now: str) -> dict[str, Any]:
    if restarts == 0:
        return {}
    return {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}}

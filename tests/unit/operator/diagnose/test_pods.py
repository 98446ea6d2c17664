"""What pods tell of themselves becomes one reason and a sentence that helps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube_objects import a_deployment, a_kube_pod
from kvis_operator.api.conditions import Reason
from kvis_operator.diagnose.pods import Fault, diagnose
from kvis_operator.observe.pods import unix_seconds

NOW = unix_seconds("2026-01-01T01:00:00Z")


def of(*pods: dict[str, Any], deployment: dict[str, Any] | None = None) -> Fault | None:
    return diagnose(pods, deployment, now=NOW)


def ended(
    code: int, *, reason: str = "Error", message: str = "", at: str = "2026-01-01T00:59:00Z"
) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": at}}


WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}


def test_healthy_pods_have_no_fault() -> None:
    assert of(a_kube_pod(ready=True), a_kube_pod()) is None


def test_r2_unschedulable_says_what_the_scheduler_says() -> None:
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    fault = of(a_kube_pod(conditions=(condition,), phase="Pending"))
    assert fault == Fault(Reason.UNSCHEDULABLE, f"Pod pod-0: {message}")


def test_a_missing_claim_is_told_as_such() -> None:
    message = 'persistentvolumeclaim "models" not found'
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    fault = of(a_kube_pod(conditions=(condition,)))
    assert fault is not None
    assert fault.reason is Reason.VOLUME_UNAVAILABLE


def test_r10_crash_loop_tells_code_restarts_and_last_words() -> None:
    fault = of(a_kube_pod(state=WAITING, last_state=ended(1, message="no such file"), restarts=4))
    assert fault is not None
    assert fault.reason is Reason.ENGINE_CRASHING
    assert fault.message == "Pod pod-0 ended with exit code 1 (4 restarts): no such file"


def test_r11_out_of_memory_is_copied_with_a_way_out() -> None:
    fault = of(a_kube_pod(state=WAITING, last_state=ended(137, reason="OOMKilled"), restarts=2))
    assert fault is not None
    assert fault.reason is Reason.OUT_OF_MEMORY
    assert "kvCache.memory" in fault.message


def test_an_engine_that_explains_itself_is_quoted() -> None:
    said = json.dumps(
        {"reason": "ConfigInvalid", "field": "--block-size", "message": "7 cannot be used, 8 can"}
    )
    fault = of(a_kube_pod(state=WAITING, last_state=ended(78, message=said)))
    assert fault == Fault(Reason.ENGINE_START_FAILED, "Pod pod-0: --block-size: 7 cannot be used, 8 can")


@pytest.mark.parametrize("said", ["", "plain words", "[1, 2]", '"text"', "{broken"])
def test_last_words_of_any_kind_are_no_problem(said: str) -> None:
    fault = of(a_kube_pod(state=WAITING, last_state=ended(78, message=said)))
    assert fault is not None


def test_a_missing_image_is_told() -> None:
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    assert of(a_kube_pod(state=state)) == Fault(
        Reason.IMAGE_UNAVAILABLE, "Pod pod-0: ErrImagePull: not found"
    )


def test_a_quota_is_told() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    fault = of(deployment=a_deployment(status={"conditions": [condition]}))
    assert fault is not None
    assert "exceeded quota" in fault.message


def test_an_old_crash_of_a_pod_that_serves_is_forgiven() -> None:
    assert (
        of(a_kube_pod(ready=True, last_state=ended(137, reason="OOMKilled", at="2026-01-01T00:00:00Z")))
        is None
    )


def test_a_recent_out_of_memory_of_a_pod_that_serves_again_is_told() -> None:
    fault = of(a_kube_pod(ready=True, last_state=ended(137, reason="OOMKilled")))
    assert fault is not None
    assert fault.reason is Reason.OUT_OF_MEMORY


def test_a_pod_on_its_way_out_is_not_judged() -> None:
    assert of(a_kube_pod(state=WAITING, last_state=ended(1), deleted=True)) is None


def test_the_most_telling_fault_wins() -> None:
    unscheduled = a_kube_pod("b", conditions=({"type": "PodScheduled", "status": "False"},))
    fault = of(unscheduled, a_kube_pod("a", state=WAITING, last_state=ended(78, message="bad flag")))
    assert fault is not None
    assert fault.reason is Reason.ENGINE_START_FAILED

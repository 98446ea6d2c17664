"""Pods of Kubernetes as deciding knows them."""

from __future__ import annotations

import pytest

from kube_objects import a_kube_pod
from kvis_operator.observe.pods import PodEndpoint, endpoint, pod_state, unix_seconds
from kvis_operator.signals.observation import PodPhase


def test_a_ready_pod_tells_since_when() -> None:
    state = pod_state(a_kube_pod(ready=True))
    assert (state.phase, state.ready_at) == (PodPhase.READY, unix_seconds("2026-01-01T00:01:00Z"))


def test_a_starting_pod_is_pending() -> None:
    assert pod_state(a_kube_pod(state={"waiting": {"reason": "ContainerCreating"}})).phase is PodPhase.PENDING


def test_a_deleted_pod_is_draining_even_while_it_is_ready() -> None:
    assert pod_state(a_kube_pod(ready=True, deleted=True)).phase is PodPhase.DRAINING


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError"])
def test_waiting_for_what_will_not_come_loses_its_credit(reason: str) -> None:
    assert pod_state(a_kube_pod(state={"waiting": {"reason": reason}})).phase is PodPhase.FAILED


def test_an_evicted_pod_has_failed_and_is_not_asked() -> None:
    pod = a_kube_pod(phase="Failed")
    assert pod_state(pod).phase is PodPhase.FAILED
    assert endpoint(pod) is None


def test_a_pod_without_status_is_pending() -> None:
    pod = a_kube_pod()
    del pod["status"]
    assert pod_state(pod).phase is PodPhase.PENDING


def test_an_ipv6_address_is_bracketed() -> None:
    assert PodEndpoint("p", "u", "fd00::1").url(8000, "/metrics") == "http://[fd00::1]:8000/metrics"

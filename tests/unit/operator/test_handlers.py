"""Handlers only update the view and wake: the right services, and never because of our own status writes."""

from __future__ import annotations

from typing import Any

import pytest

from kube_objects import a_kube_pod, an_object
from kvis_operator.cluster.resources import AUTOSCALERS, DEPLOYMENTS, PODS, SERVICES, Resource
from kvis_operator.handlers import take
from kvis_operator.observe.cluster import ClusterView, Key
from scenes import a_body


class Seen:
    """A view with one service in it, and the keys woken since."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.woken: list[Key] = []
        self.give(None, SERVICES, a_body())
        self.woken.clear()

    def wake(self, key: Key, **_: Any) -> None:
        self.woken.append(key)

    def give(self, kind: str | None, resource: Resource, body: dict[str, Any]) -> list[Key]:
        take(kind, resource, body, view=self.view, wake=self.wake)
        return self.woken


DEMO = Key("team", "demo")


@pytest.fixture
def seen() -> Seen:
    return Seen()


def newer(body: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": "9", **metadata}}


def test_a_new_generation_wakes(seen: Seen) -> None:
    assert seen.give("MODIFIED", SERVICES, newer(a_body(), generation=2)) == [DEMO]


def test_a_status_write_does_not_wake(seen: Seen) -> None:
    assert seen.give("MODIFIED", SERVICES, newer(a_body(status={"replicas": 3}))) == []


def test_a_deletion_wakes(seen: Seen) -> None:
    assert seen.give("DELETED", SERVICES, newer(a_body())) == [DEMO]
    assert seen.view.service(DEMO) is None


def test_a_pod_wakes_its_service(seen: Seen) -> None:
    assert seen.give("ADDED", PODS, a_kube_pod() | {"metadata": a_kube_pod()["metadata"]}) == [DEMO]


def test_a_child_without_our_label_wakes_its_owner(seen: Seen) -> None:
    child = an_object("Deployment", owner="uid-0", metadata={"labels": {}})
    assert seen.give("ADDED", DEPLOYMENTS, child) == [DEMO]


def test_an_autoscaler_wakes_its_target(seen: Seen) -> None:
    hpa = an_object(
        "HorizontalPodAutoscaler", spec={"scaleTargetRef": {"kind": SERVICES.kind, "name": "demo"}}
    )
    assert seen.give("ADDED", AUTOSCALERS, hpa) == [DEMO]


def test_an_autoscaler_of_something_else_wakes_nobody(seen: Seen) -> None:
    hpa = an_object(
        "HorizontalPodAutoscaler", spec={"scaleTargetRef": {"kind": "StatefulSet", "name": "demo"}}
    )
    assert seen.give("ADDED", AUTOSCALERS, hpa) == []

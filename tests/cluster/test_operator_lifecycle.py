"""A service from apply to delete: children appear with their owner, follow the resource, and go with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kubernetes.aio import client

import lab
from kvis_services import Services, eventually
from lab.fake_node import FakeNode
from operator_process import Operator, an_operator, audited_writes

pytestmark = pytest.mark.cluster


@pytest_asyncio.fixture
async def operator(
    cluster: lab.Cluster, kube: client.ApiClient, namespace: str, fake_node: FakeNode, tmp_path: Path
) -> AsyncIterator[Operator]:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as running:
        yield running


@pytest.fixture
def services(kube: client.ApiClient, namespace: str) -> Services:
    return Services(kube, namespace)


async def children(kube: client.ApiClient, namespace: str) -> dict[str, Any]:
    core, policy = client.CoreV1Api(kube), client.PolicyV1Api(kube)
    selector = {"label_selector": "app.kubernetes.io/managed-by=kvis"}
    lists = {
        "Deployment": await client.AppsV1Api(kube).list_namespaced_deployment(namespace, **selector),
        "Service": await core.list_namespaced_service(namespace, **selector),
        "ConfigMap": await core.list_namespaced_config_map(namespace, **selector),
        "PodDisruptionBudget": await policy.list_namespaced_pod_disruption_budget(namespace, **selector),
        "Pod": await core.list_namespaced_pod(namespace, **selector),
    }
    return {kind: found.items for kind, found in lists.items() if found.items}


@pytest.mark.usefixtures("operator")
async def test_every_child_appears_and_belongs_to_the_service(
    kube: client.ApiClient, namespace: str, services: Services
) -> None:
    created = await services.create()
    await services.until_ready()
    found = await children(kube, namespace)
    assert set(found) == {"Deployment", "Service", "ConfigMap", "PodDisruptionBudget", "Pod"}
    owners = [item.metadata.owner_references[0] for kind in found if kind != "Pod" for item in found[kind]]
    assert {(owner.uid, owner.controller) for owner in owners} == {(created["metadata"]["uid"], True)}


@pytest.mark.usefixtures("operator")
async def test_status_tells_replicas_selector_plan_and_every_condition(services: Services) -> None:
    await services.create()
    await services.until_ready()
    status = (await services.get())["status"]
    assert status["selector"] == "app.kubernetes.io/name=kvis-runtime,kvis.dev/service=demo"
    assert (status["replicas"], status["readyReplicas"]) == (1, 1)
    assert status["plan"]["profile"] == "fake"
    assert {c["type"] for c in status["conditions"]} >= {
        "Ready",
        "Accepted",
        "Sized",
        "EngineHealthy",
        "MetricsFresh",
    }


@pytest.mark.parametrize("mode", ["Auto", "Recommend", "Manual"])
@pytest.mark.usefixtures("operator")
async def test_replicas_is_set_once_in_every_mode_so_that_the_scale_subresource_can_be_read(
    services: Services, mode: str
) -> None:
    await services.create(scaling={"mode": mode, "minReplicas": 2, "maxReplicas": 3})
    await services.until_replicas("demo", 2)


@pytest.mark.usefixtures("operator")
async def test_deleting_the_service_leaves_nothing(
    kube: client.ApiClient, namespace: str, services: Services
) -> None:
    await services.create()
    await services.until_ready()
    await services.delete()

    async def gone() -> bool:
        return not await children(kube, namespace)

    await eventually(gone, seconds=30, what="no child is left")


@pytest.mark.usefixtures("operator")
async def test_a_service_created_again_under_its_name_is_served_again(services: Services) -> None:
    first = await services.create()
    await services.until_ready()
    await services.delete()
    second = await services.create()
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    await services.until_ready(seconds=40)


@pytest.mark.usefixtures("operator")
async def test_children_that_were_orphaned_are_adopted_and_their_pods_go_on(services: Services) -> None:
    await services.create()
    await services.until_ready()
    before = {pod.metadata.uid for pod in await services.pods()}
    await services.delete(propagation_policy="Orphan")
    created = await eventually(services.create, seconds=20, what="the old service is gone")

    async def adopted() -> bool:
        owners = (await services.deployment()).metadata.owner_references or []
        return [owner.uid for owner in owners] == [created["metadata"]["uid"]]

    await eventually(adopted, seconds=20, what="the Deployment belongs to the new service")
    await services.until_ready()
    assert {pod.metadata.uid for pod in await services.pods()} == before


@pytest.mark.usefixtures("operator")
async def test_a_child_deleted_by_hand_comes_back(
    kube: client.ApiClient, namespace: str, services: Services
) -> None:
    await services.create()
    await services.until_ready()
    core = client.CoreV1Api(kube)
    before = await core.read_namespaced_service("demo", namespace)
    await core.delete_namespaced_service("demo", namespace)

    async def back() -> bool:
        return bool(
            (await core.read_namespaced_service("demo", namespace)).metadata.uid != before.metadata.uid
        )

    await eventually(back, seconds=10, what="the Service is back")


@pytest.mark.usefixtures("operator")
async def test_an_edited_child_is_as_rendered_again_and_an_event_says_so(
    kube: client.ApiClient, namespace: str, services: Services
) -> None:
    await services.create()
    await services.until_ready()
    edit = {"spec": {"progressDeadlineSeconds": 7}}
    await client.AppsV1Api(kube).patch_namespaced_deployment("demo", namespace, edit)

    async def restored() -> bool:
        return bool((await services.deployment()).spec.progress_deadline_seconds != 7)

    await eventually(restored, seconds=10, what="the edit is taken back")

    async def told() -> bool:
        found = await client.CoreV1Api(kube).list_namespaced_event(namespace)
        return any(event.reason == "ChildEdited" for event in found.items)

    await eventually(told, seconds=10, what="an event tells of the edit")


@pytest.mark.usefixtures("operator")
async def test_a_field_that_reaches_the_pods_makes_them_roll(services: Services) -> None:
    await services.create()
    await services.until_ready()
    before = {pod.metadata.uid for pod in await services.pods()}
    await services.patch("demo", kvCache={"blockSize": 32})

    async def rolled() -> bool:
        pods = await services.pods()
        return len(pods) == 1 and not before & {pod.metadata.uid for pod in pods}

    await eventually(rolled, seconds=30, what="the pod is another one")


async def test_an_idle_service_is_not_written_for_a_minute(
    operator: Operator, namespace: str, services: Services
) -> None:
    for number in range(5):
        await services.create(f"idle-{number}")
    for number in range(5):
        await services.until_ready(f"idle-{number}", seconds=60)
    await quiet(operator, seconds=5)
    before = len(audited_writes(operator, namespace=namespace))
    await quiet(operator, seconds=60)
    assert audited_writes(operator, namespace=namespace)[before:] == []


async def quiet(operator: Operator, *, seconds: float) -> None:
    """Wait until the operator has written nothing for `seconds`."""
    written = await operator.writes()
    waited = 0.0
    while waited < seconds:
        await asyncio.sleep(1)
        waited += 1
        now = await operator.writes()
        written, waited = now, waited if now == written else 0.0

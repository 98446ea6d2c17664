"""What people get wrong becomes a condition that names the field and what would work; what serves goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes.aio import client

import lab
from kvis_services import Services
from lab.fake_node import FakeNode
from operator_process import Operator, an_operator

pytestmark = pytest.mark.cluster


@pytest_asyncio.fixture(autouse=True)
async def operator(
    cluster: lab.Cluster, kube: client.ApiClient, namespace: str, fake_node: FakeNode, tmp_path: Path
) -> AsyncIterator[Operator]:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as running:
        yield running


@pytest.fixture
def services(kube: client.ApiClient, namespace: str) -> Services:
    return Services(kube, namespace)


async def test_a_profile_that_does_not_exist_names_those_that_do(services: Services) -> None:
    await services.create(profile="nvidia-h100")
    found = await services.until("demo", "Accepted", "ProfileNotFound", status="False")
    assert "fake, other" in found["message"]
    assert (await services.condition("demo", "Ready"))["status"] == "False"


async def test_a_corrected_service_is_served_without_further_help(services: Services) -> None:
    await services.create(profile="nvidia-h100")
    await services.until("demo", "Accepted", "ProfileNotFound")
    await services.patch("demo", profile="fake")
    await services.until_ready()


async def test_kv_memory_too_small_names_the_length_that_fits_and_the_memory_needed(
    services: Services,
) -> None:
    await services.create(
        model={"uri": "bundled://smollm2-135m", "maxLength": 8192}, kvCache={"memory": "64Mi"}
    )
    found = await services.until("demo", "Sized", "KVMemoryTooSmall", status="False")
    assert "at most" in found["message"]
    assert "at least" in found["message"]


@pytest.mark.parametrize("size", [7, 3])
async def test_a_block_size_that_the_engine_cannot_use_names_the_nearest(
    services: Services, size: int
) -> None:
    await services.create(kvCache={"blockSize": size})
    found = await services.until("demo", "Sized", "BlockSizeUnsupported", status="False")
    assert "nearest" in found["message"]


async def test_a_bad_change_leaves_what_serves_alone(services: Services) -> None:
    await services.create()
    await services.until_ready()
    before = {pod.metadata.uid for pod in await services.pods()}
    await services.patch("demo", kvCache={"blockSize": 7})
    await services.until("demo", "Sized", "BlockSizeUnsupported")
    assert {pod.metadata.uid for pod in await services.pods()} == before


async def test_s16_a_name_that_belongs_to_something_else_is_not_taken(
    kube: client.ApiClient, namespace: str, services: Services
) -> None:
    theirs = {"metadata": {"name": "demo"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}}}
    core = client.CoreV1Api(kube)
    await core.create_namespaced_service(namespace, theirs)
    await services.create()
    found = await services.until("demo", "Accepted", "NameTaken", status="False")
    assert "Service demo" in found["message"]
    assert (await core.read_namespaced_service("demo", namespace)).spec.selector == {"app": "theirs"}


async def test_s16_of_two_services_with_one_derived_name_the_second_waits_for_the_first(
    kube: client.ApiClient, namespace: str, services: Services
) -> None:
    await services.create("demo")
    await services.until_ready("demo")
    # The first one's key map is called demo-admin-key; a foreign object stands where the second's would be.
    owner = (await services.get("demo"))["metadata"]
    reference = {
        "apiVersion": "kvis.dev/v1alpha1",
        "kind": "KVInferenceService",
        "name": "demo",
        "uid": owner["uid"],
        "controller": True,
    }
    clash = {"metadata": {"name": "second-admin-key", "ownerReferences": [reference]}, "data": {}}
    await client.CoreV1Api(kube).create_namespaced_config_map(namespace, clash)
    await services.create("second")
    found = await services.until("second", "Accepted", "NameTaken", status="False")
    assert "KVInferenceService/demo" in found["message"]
    await client.CoreV1Api(kube).delete_namespaced_config_map("second-admin-key", namespace)
    await services.until_ready("second", seconds=50)


async def test_i5_a_dropped_unknown_field_is_told(kube: client.ApiClient, services: Services) -> None:
    await services.create()
    spec = {**(await services.get())["spec"], "maxNumSeq": 4}
    sent = json.dumps({"apiVersion": "kvis.dev/v1alpha1", "kind": "KVInferenceService", "spec": spec})
    where = ("kvis.dev", "v1alpha1", services.namespace, "kvinferenceservices", "demo")
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": sent}
    await services.api.patch_namespaced_custom_object(
        *where, {"metadata": {"annotations": annotation}}, _content_type="application/merge-patch+json"
    )
    await services.until_ready()

    found = await services.condition("demo", "Accepted")
    assert found["status"] == "True"
    assert "maxNumSeq" in found["message"]


async def test_a_quota_that_forbids_pods_is_told(
    kube: client.ApiClient, namespace: str, services: Services
) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await client.CoreV1Api(kube).create_namespaced_resource_quota(namespace, quota)
    await services.create()
    found = await services.until("demo", "EngineHealthy", "CreateRefused", status="False")
    assert "quota" in found["message"]


async def test_r2_an_unschedulable_pod_is_told_within_seconds(
    kube: client.ApiClient, services: Services, fake_node: FakeNode
) -> None:
    cordon = {"spec": {"unschedulable": True}}
    await client.CoreV1Api(kube).patch_node(fake_node.name, cordon)
    await services.create()
    await services.until("demo", "EngineHealthy", "Unschedulable", status="False")

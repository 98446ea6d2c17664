"""Who sets replicas, and what a scale-in takes, on a real API server with a fake node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

import lab
from kvis_services import Services, eventually
from lab.fake_node import FakeNode
from operator_process import an_operator

pytestmark = pytest.mark.cluster

WIDE = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 4}


@pytest.fixture
def services(kube: client.ApiClient, namespace: str) -> Services:
    return Services(kube, namespace)


async def until_told(kube: client.ApiClient, namespace: str, *wanted: str) -> None:
    """Until events of these reasons are there: they follow the status that they tell of."""

    async def told() -> bool:
        found = await client.CoreV1Api(kube).list_namespaced_event(namespace)
        of_services = [event for event in found.items if event.involved_object.kind == "KVInferenceService"]
        return set(wanted) <= {event.reason for event in of_services}

    await eventually(told, seconds=10, what=f"events {', '.join(wanted)}")


async def test_s14_kubectl_scale_in_auto_is_followed_then_taken_back_with_an_event(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"placement": fake_node.placement, "manual_hold_seconds": 12}
    async with an_operator(cluster, kube, namespace, tmp_path, **flags):
        await services.create(scaling=WIDE)
        await services.until_ready()
        await services.scale("demo", 3)
        await services.until_replicas("demo", 3, seconds=10)
        await services.until("demo", "ScalingActive", "ManualHold", seconds=10)
        await services.until_replicas("demo", 1, seconds=25)
        await until_told(kube, namespace, "ManualHold", "ManualHoldOver")


async def test_kubectl_scale_in_manual_is_followed(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        await services.create(scaling={"mode": "Manual"})
        await services.until_replicas("demo", 1)
        for wanted in (3, 2):
            await services.scale("demo", wanted)
            await services.until_replicas("demo", wanted)
        await services.until("demo", "ScalingActive", "Manual")


async def test_a_scale_in_takes_the_pod_with_the_least_work(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        await services.create(scaling={"mode": "Manual"}, replicas=3)
        await services.until_replicas("demo", 3)
        names = sorted(pod.metadata.name for pod in await services.pods())
        for name, running in zip(names, (5, 0, 5), strict=True):
            fake_node.runtime(name).load.running = running
        await asyncio.sleep(3)  # two ticks: the loads have been read
        await services.scale("demo", 2)
        await services.until_replicas("demo", 2)
        assert sorted(pod.metadata.name for pod in await services.pods()) == [names[0], names[2]]


async def test_pressure_adds_a_replica_and_says_why(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        await services.create(scaling=WIDE, workload={"inputTokens": 400, "outputTokens": 100})
        await services.until_ready()
        (pod,) = await services.pods()
        task = asyncio.create_task(busy(fake_node, pod.metadata.name))
        try:
            await grown(services)
        finally:
            task.cancel()
        decision = (await services.get())["status"]["decisions"][0]
        assert decision["knob"] == "replicas"
        assert decision["outcome"] == "Applied"
        await until_told(kube, namespace, decision["reason"])


async def busy(node: FakeNode, pod: str) -> None:
    """A pod whose cache is full and whose queue grows, with the counters of an engine at work."""
    load = node.runtime(pod).load
    load.running, load.referenced_blocks = 16, 980
    while True:
        load.waiting += 3
        load.finished += 2
        load.prompt_tokens += 800
        load.prefix_queries += 800
        load.generation_tokens += 200
        load.steps += 15
        load.busy_seconds += 0.95
        await asyncio.sleep(1)


async def grown(services: Services) -> None:
    async def more() -> bool:
        return ((await services.get())["spec"].get("replicas") or 0) >= 2

    await eventually(more, seconds=60, what="a replica is added")


async def test_recommend_writes_no_replicas_and_says_what_it_would_set(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        hints = {"inputTokens": 400, "outputTokens": 100}
        await services.create(scaling={**WIDE, "mode": "Recommend"}, workload=hints)
        await services.until_ready()
        (pod,) = await services.pods()
        task = asyncio.create_task(busy(fake_node, pod.metadata.name))

        async def recommended() -> bool:
            return bool((await services.get())["status"].get("recommendation", {}).get("replicas", 0) >= 2)

        try:
            await eventually(recommended, seconds=60, what="more replicas are recommended")
        finally:
            task.cancel()
        assert (await services.get())["spec"]["replicas"] == 1


async def test_s12_an_autoscaler_that_targets_the_service_is_yielded_to(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        await services.create(scaling=WIDE)
        await services.until_ready()
        target = {"apiVersion": "kvis.dev/v1alpha1", "kind": "KVInferenceService", "name": "demo"}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4}
        hpa = {"metadata": {"name": "theirs"}, "spec": spec}
        await client.AutoscalingV2Api(kube).create_namespaced_horizontal_pod_autoscaler(namespace, hpa)
        found = await services.until("demo", "ScalingActive", "ExternallyScaled", status="False")
        assert "theirs" in found["message"]
        await services.scale("demo", 2)  # as the autoscaler would
        await services.until_replicas("demo", 2)


async def test_an_autoscaler_of_the_deployment_keeps_its_number_and_is_not_fought(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as operator:
        await services.create(scaling=WIDE)
        await services.until_ready()
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}
        spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4}
        hpa = {"metadata": {"name": "theirs"}, "spec": spec}
        await client.AutoscalingV2Api(kube).create_namespaced_horizontal_pod_autoscaler(namespace, hpa)
        await services.until("demo", "ScalingActive", "ExternallyScaled", status="False")
        apps = client.AppsV1Api(kube)
        await apps.patch_namespaced_deployment_scale("demo", namespace, {"spec": {"replicas": 2}})
        before = await operator.metric("kvis_api_writes_total", resource="deployments")
        await asyncio.sleep(5)
        assert (await services.deployment()).spec.replicas == 2
        assert await operator.metric("kvis_api_writes_total", resource="deployments") == before


async def test_paused_changes_nothing_and_goes_on_afterwards(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        await services.create(scaling={"mode": "Manual"})
        await services.until_ready()
        await services.patch("demo", paused=True, replicas=2)
        await services.until("demo", "ScalingActive", "Paused")
        await asyncio.sleep(3)
        assert (await services.deployment()).spec.replicas == 1
        await services.patch("demo", paused=False)
        await services.until_replicas("demo", 2)


async def test_the_live_cap_is_written_to_a_pod_under_preemptions(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        await services.create(scaling={"mode": "Manual"})
        await services.until_ready()
        (pod,) = await services.pods()
        runtime = fake_node.runtime(pod.metadata.name)
        task = asyncio.create_task(busy(fake_node, pod.metadata.name))
        storm = asyncio.create_task(preempting(fake_node, pod.metadata.name))

        async def lowered() -> bool:
            return runtime.load.cap < runtime.load.max_num_seqs

        try:
            await eventually(lowered, seconds=60, what="the cap is lowered")
        finally:
            task.cancel()
            storm.cancel()
        assert ("PUT", "/kvis/limits", {"maxNumActiveSeqs": runtime.load.cap}) in runtime.calls

        async def told() -> bool:
            decisions = (await services.get())["status"]["decisions"]
            return any(decision["knob"] == "maxNumSeqs" for decision in decisions)

        await eventually(told, seconds=15, what="status tells of the cap")


async def preempting(node: FakeNode, pod: str) -> None:
    while True:
        node.runtime(pod).load.preemptions += 2
        await asyncio.sleep(1)

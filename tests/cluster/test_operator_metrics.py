"""Pods that lie, hang or fall silent: nothing shrinks, nothing crashes, and other services do not notice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kubernetes.aio import client

import lab
from kvis_services import Services, eventually
from lab.fake_node import FakeNode
from lab.fake_runtime import Metrics
from operator_process import an_operator

pytestmark = pytest.mark.cluster

BAD = [mode for mode in Metrics if mode is not Metrics.GOOD]


async def test_m5_no_fault_of_the_pods_metrics_takes_a_replica_away(
    cluster: lab.Cluster, kube: client.ApiClient, namespace: str, fake_node: FakeNode, tmp_path: Path
) -> None:
    services = Services(kube, namespace)
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as operator:
        bounds = {"mode": "Auto", "minReplicas": 2, "maxReplicas": 4, "downMemory": "1m"}
        await services.create(scaling=bounds)
        await services.until_replicas("demo", 2)
        for mode in BAD:
            for pod in await services.pods():
                fake_node.runtime(pod.metadata.name).metrics = mode
            await services.patch("demo", scaling={"minReplicas": 1})
            await asyncio.sleep(4)
            replicas = (await services.get())["spec"]["replicas"]
            assert 2 <= replicas <= 3, f"{mode}: nothing is taken away, at most one is added"
        assert await operator.metric("kvis_reconcile_errors_total") == 0
        for pod in await services.pods():
            fake_node.runtime(pod.metadata.name).metrics = Metrics.GOOD
        await services.until("demo", "MetricsFresh", "Fresh", status="True")


async def test_a_silent_pod_is_told_and_other_services_are_served_meanwhile(
    cluster: lab.Cluster, kube: client.ApiClient, namespace: str, fake_node: FakeNode, tmp_path: Path
) -> None:
    services = Services(kube, namespace)
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as operator:
        await services.create("silent")
        await services.until_ready("silent")
        (pod,) = await services.pods("silent")
        fake_node.runtime(pod.metadata.name).metrics = Metrics.HANG
        found = await services.until("silent", "MetricsFresh", "MetricsStale", status="False", seconds=30)
        assert "1 of 1" in found["message"]
        await services.create("other", scaling={"mode": "Manual"})
        await services.until_ready("other", seconds=20)

        async def unknown() -> bool:
            text = await operator.text("/metrics")
            return f'kvis_service_kv_usage_ratio{{namespace="{namespace}",service="silent"}}' not in text

        await eventually(unknown, seconds=10, what="what cannot be read has no sample")

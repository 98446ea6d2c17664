"""The fake node behaves like a node as far as the operator can see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from kubernetes.aio import client

from lab.fake_node import FakeNode
from lab.fake_status import Behaviour

pytestmark = pytest.mark.cluster


def a_deployment(node: FakeNode, *, replicas: int) -> dict[str, Any]:
    restricted = {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "runtime", "image": "kvis.dev/none:1", "securityContext": restricted}
    labels = {"app": "fake"}
    return {
        "metadata": {"name": "fake"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 5, **node.placement},
            },
        },
    }


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110 - the API server signals nothing here
            await asyncio.sleep(0.1)


async def ready_replicas(kube: client.ApiClient, namespace: str, wanted: int) -> None:
    async def as_wanted() -> bool:
        found = await client.AppsV1Api(kube).read_namespaced_deployment("fake", namespace)
        return (found.status.ready_replicas or 0) == wanted and found.status.replicas == wanted

    await eventually(as_wanted)


async def test_pods_become_ready_and_answer(
    kube: client.ApiClient, namespace: str, fake_node: FakeNode
) -> None:
    apps = client.AppsV1Api(kube)
    await apps.create_namespaced_deployment(namespace, a_deployment(fake_node, replicas=2))
    await ready_replicas(kube, namespace, 2)
    pod = next(iter(fake_node.pods.values()))
    async with aiohttp.ClientSession() as http:
        answer = await http.get(f"http://{pod.runtime.address}:8000/metrics")
        assert "vllm:num_requests_running" in await answer.text()


async def test_a_deleted_pod_goes_after_its_delay_and_is_replaced(
    kube: client.ApiClient, namespace: str, fake_node: FakeNode
) -> None:
    apps = client.AppsV1Api(kube)
    await apps.create_namespaced_deployment(namespace, a_deployment(fake_node, replicas=1))
    await ready_replicas(kube, namespace, 1)
    first = next(iter(fake_node.pods))
    await client.CoreV1Api(kube).delete_namespaced_pod(first, namespace)

    async def is_gone() -> bool:
        return first not in fake_node.pods

    await eventually(is_gone)
    await ready_replicas(kube, namespace, 1)


async def test_a_pod_that_dies_stops_being_ready(
    kube: client.ApiClient, namespace: str, fake_node: FakeNode
) -> None:
    apps = client.AppsV1Api(kube)
    await apps.create_namespaced_deployment(namespace, a_deployment(fake_node, replicas=1))
    await ready_replicas(kube, namespace, 1)
    next(iter(fake_node.pods.values())).behaviour = Behaviour(dies_after=0.0)

    async def is_unready() -> bool:
        found = await apps.read_namespaced_deployment("fake", namespace)
        return not found.status.ready_replicas

    await eventually(is_unready)

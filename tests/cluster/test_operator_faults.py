"""The operator is killed, stopped, doubled and cut off; what serves goes on, and all converges afterwards."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

import lab
from api_gate import ApiGate
from kvis_services import Services, eventually
from lab.fake_node import FakeNode
from operator_process import ACCOUNT, Operator, an_operator, audited_writes

pytestmark = pytest.mark.cluster

MANUAL = {"mode": "Manual"}


@pytest.fixture
def services(kube: client.ApiClient, namespace: str) -> Services:
    return Services(kube, namespace)


async def leader_of(*operators: Operator, seconds: float) -> Operator:
    async def leading() -> Operator | None:
        found = [one for one in operators if await one.leads()]
        assert len(found) <= 1, "two lead at once"
        return found[0] if found else None

    leader = await eventually(leading, seconds=seconds, what="one leads")
    assert isinstance(leader, Operator)
    return leader


@pytest.mark.parametrize("after_seconds", [0.0, 0.15, 0.4])
async def test_killed_in_the_middle_of_scaling_it_converges_when_it_is_back(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
    after_seconds: float,
) -> None:
    flags: dict[str, Any] = {
        "placement": fake_node.placement,
        "lease_seconds": 4,
        "renew_seconds": 3,
        "retry_seconds": 1,
    }
    async with an_operator(cluster, kube, namespace, tmp_path, **flags) as first:
        await services.create(scaling={"mode": "Auto", "minReplicas": 1, "maxReplicas": 5})
        await services.until_ready()
        await services.patch("demo", scaling={"minReplicas": 3})
        await asyncio.sleep(after_seconds)
        await first.kill()
    async with an_operator(cluster, kube, namespace, tmp_path, **flags):
        await services.until_replicas("demo", 3, seconds=30)
        await asyncio.sleep(3)
        assert (await services.condition("demo", "ScalingActive"))["reason"] != "ManualHold"


async def test_r7_a_restart_with_unchanged_services_changes_no_pod_and_writes_no_child(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement):
        await services.create(scaling=MANUAL, replicas=2)
        await services.until_replicas("demo", 2)
        before = {pod.metadata.uid for pod in await services.pods()}
        generation = (await services.deployment()).metadata.generation
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as second:
        await leader_of(second, seconds=25)
        await asyncio.sleep(5)
        assert {pod.metadata.uid for pod in await services.pods()} == before
        assert (await services.deployment()).metadata.generation == generation
        assert await second.metric("kvis_api_writes_total", resource="deployments") == 0


async def test_s11_of_two_operators_exactly_one_acts_and_a_crash_is_taken_over_within_20_s(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"placement": fake_node.placement}
    async with (
        an_operator(cluster, kube, namespace, tmp_path, identity="one", **flags) as one,
        an_operator(cluster, kube, namespace, tmp_path, identity="two", **flags) as two,
    ):
        first = await leader_of(one, two, seconds=20)
        second = two if first is one else one
        await services.create(scaling=MANUAL)
        await services.until_ready()
        assert await second.writes() == 0
        began = time.monotonic()
        await first.kill()
        await leader_of(second, seconds=25)
        await services.scale("demo", 2)
        await services.until_replicas("demo", 2, seconds=20)
        assert time.monotonic() - began <= 20 + 5, "20 s to take over, the rest for the pod to start"


async def test_a_stopped_leader_hands_over_within_three_seconds(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"placement": fake_node.placement}
    async with (
        an_operator(cluster, kube, namespace, tmp_path, **flags) as one,
        an_operator(cluster, kube, namespace, tmp_path, **flags) as two,
    ):
        first = await leader_of(one, two, seconds=20)
        second = two if first is one else one
        first.send(signal.SIGTERM)
        code = await first.ended()
        began = time.monotonic()
        await leader_of(second, seconds=6)
        assert time.monotonic() - began <= 3
        assert code == 0


async def test_a_leader_that_was_suspended_for_longer_than_its_lease_writes_nothing_when_it_wakes(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {
        "placement": fake_node.placement,
        "lease_seconds": 5,
        "renew_seconds": 3,
        "retry_seconds": 1,
    }
    async with (
        an_operator(cluster, kube, namespace, tmp_path, account="op-one", **flags) as one,
        an_operator(cluster, kube, namespace, tmp_path, account="op-two", **flags) as two,
    ):
        first = await leader_of(one, two, seconds=20)
        second = two if first is one else one
        await services.create(scaling=MANUAL)
        await services.until_ready()
        await asyncio.sleep(3)  # what was under way is done: a request already sent cannot be taken back
        first.send(signal.SIGSTOP)
        await leader_of(second, seconds=20)
        before = len(audited_writes(first, namespace=namespace))
        await services.scale("demo", 2)  # the suspended one will wake to a change that it has not seen
        first.send(signal.SIGCONT)
        await services.until_replicas("demo", 2)
        assert await first.ended(seconds=30) != 0, "it exits, to start anew as a follower"
        assert audited_writes(first, namespace=namespace)[before:] == []


async def outage(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
    *,
    seconds: float,
) -> None:
    """The API server is away for the operator alone; a service is changed meanwhile."""
    async with ApiGate(cluster.kubeconfig, tmp_path) as gate:
        flags: dict[str, Any] = {"placement": fake_node.placement, "gate": gate}
        async with an_operator(cluster, kube, namespace, tmp_path, **flags) as operator:
            await services.create(scaling=MANUAL)
            await services.until_ready()
            before = {pod.metadata.uid for pod in await services.pods()}
            gate.close()
            await services.scale("demo", 2)
            await asyncio.sleep(seconds)
            assert {pod.metadata.uid for pod in await services.pods()} == before, "what serves goes on"
            gate.open()
            await restarted_if_ended(operator)
            await services.until_replicas("demo", 2, seconds=30)
            assert before <= {pod.metadata.uid for pod in await services.pods()}


async def restarted_if_ended(operator: Operator) -> None:
    """As a kubelet does it: losing the lease ends the process, which is right."""
    if operator.process.poll() is not None:
        await operator.restart()


async def test_an_api_server_that_is_away_for_20_s_is_waited_for(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    await outage(cluster, kube, namespace, fake_node, services, tmp_path, seconds=20)


async def test_connections_that_hang_without_a_word_cost_the_lease_in_time_and_no_more(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with ApiGate(cluster.kubeconfig, tmp_path) as gate:
        flags: dict[str, Any] = {"placement": fake_node.placement, "gate": gate}
        async with an_operator(cluster, kube, namespace, tmp_path, **flags) as operator:
            await services.create(scaling=MANUAL)
            await services.until_ready()
            gate.stall()
            began = time.monotonic()
            assert await operator.ended(seconds=60) != 0
            # 10 s to give up renewing, 6 s of a call under way, and the orderly end of everything else.
            assert time.monotonic() - began <= 40
            gate.open()
            await operator.restart()
            await services.scale("demo", 2)
            await services.until_replicas("demo", 2, seconds=40)


async def test_watches_that_stay_open_and_fall_silent_are_made_up_for_by_relisting(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with ApiGate(cluster.kubeconfig, tmp_path) as gate:
        flags: dict[str, Any] = {"placement": fake_node.placement, "gate": gate}
        async with an_operator(cluster, kube, namespace, tmp_path, **flags) as operator:
            await services.create(scaling=MANUAL)
            await services.until_ready()
            await asyncio.sleep(5)  # what only listens is told from what asks
            assert gate.silence_watches() >= 3, "services, children and pods are watched"
            await services.scale("demo", 2)
            await services.until_replicas("demo", 2, seconds=30)
            assert operator.process.poll() is None, "one silent watch costs neither lease nor process"


@pytest.mark.slow
async def test_an_api_server_that_is_away_for_60_s_is_waited_for(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    await outage(cluster, kube, namespace, fake_node, services, tmp_path, seconds=60)


async def test_rights_that_were_taken_away_are_waited_for(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
) -> None:
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as operator:
        await services.create(scaling=MANUAL)
        await services.until_ready()
        rbac = client.RbacAuthorizationV1Api(kube)
        role = await rbac.read_namespaced_role(ACCOUNT, namespace)
        await rbac.patch_namespaced_role(ACCOUNT, namespace, {"rules": []})
        await services.scale("demo", 2)
        await asyncio.sleep(20)
        assert len(await services.pods()) == 1
        role.metadata.resource_version = None
        await rbac.replace_namespaced_role(ACCOUNT, namespace, role)
        await restarted_if_ended(operator)
        await services.until_replicas("demo", 2, seconds=60)

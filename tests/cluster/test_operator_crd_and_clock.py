"""The ground shifts under a running operator: the resource's definition goes, the clock jumps."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

import lab
from kvis_services import Services, eventually
from lab.fake_node import FakeNode
from operator_process import Operator, an_operator, install_crd

pytestmark = pytest.mark.cluster

MANUAL = {"mode": "Manual"}
DEFINITION = "kvinferenceservices.kvis.dev"
HOUR, FIVE_MINUTES = 3600, 300  # a certificate is younger than an hour


@pytest.fixture
def services(kube: client.ApiClient, namespace: str) -> Services:
    return Services(kube, namespace)


async def is_gone(kube: client.ApiClient) -> bool:
    try:
        await client.ApiextensionsV1Api(kube).read_custom_resource_definition(DEFINITION)
    except ApiException as error:
        return error.status == 404
    return False


@pytest.mark.alone  # every service of the cluster goes with the definition
async def test_without_its_definition_it_ends_and_started_anew_waits_until_the_definition_is_back(
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
        await client.ApiextensionsV1Api(kube).delete_custom_resource_definition(DEFINITION)
        await eventually(lambda: is_gone(kube), seconds=30, what="the definition is gone")
        assert await operator.ended(seconds=40) != 0
        await operator.restart()  # as a kubelet does it
        await asyncio.sleep(5)
        assert operator.process.poll() is None, "a restart loop would wait longer and longer"
        await install_crd(kube)
        await services.create(scaling=MANUAL)
        await services.until_ready(seconds=60)


@pytest.mark.parametrize("step_seconds", [HOUR, -FIVE_MINUTES])
async def test_a_clock_that_jumps_takes_nothing_away_and_scaling_goes_on(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    services: Services,
    tmp_path: Path,
    step_seconds: int,
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    flags: dict[str, Any] = {"placement": fake_node.placement, "environment": jumping(clock)}
    async with an_operator(cluster, kube, namespace, tmp_path, **flags) as operator:
        await services.create(
            scaling={"mode": "Auto", "minReplicas": 1, "maxReplicas": 4, "downMemory": "1m"}
        )
        await services.until_ready()
        await services.patch("demo", scaling={"minReplicas": 2})
        await services.until_replicas("demo", 2)
        before = {pod.metadata.uid for pod in await services.pods()}

        clock.write_text(f"{step_seconds:+d}\n")
        await asyncio.sleep(10)
        assert {pod.metadata.uid for pod in await services.pods()} == before

        await services.patch("demo", scaling={"minReplicas": 3})
        await services.until_replicas("demo", 3, seconds=40)
        assert before <= {pod.metadata.uid for pod in await services.pods()}
        assert await leads_still(operator)


async def leads_still(operator: Operator) -> bool:
    """A lease held by the monotonic clock is not lost to a jump of the other."""
    return operator.process.poll() is None and await operator.leads()


def jumping(clock: Path) -> dict[str, str]:
    """Environment of a process whose wall clock is off by the seconds written in `clock`, its monotonic one right."""
    if shutil.which("faketime") is None:
        pytest.skip("faketime is missing: apt-get install faketime")
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }

"""What fails around a serving service, and that serving goes on."""

import asyncio
import itertools
import json

import pytest
from kubernetes.aio import client

import lab
from demo import steps
from demo.load import Load
from demo.traffic import Phase, read_prompts
from e2e.field import Field, eventually
from lab import processes
from lab.api import is_ready

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

OUTAGE_SECONDS = 60.0
API_SERVER = "kube-apiserver"


async def operator_pods(api: client.ApiClient) -> list[str]:
    found = await client.CoreV1Api(api).list_namespaced_pod(steps.SYSTEM)
    return [pod.metadata.name for pod in found.items if pod.metadata.deletion_timestamp is None]


async def lives(field: Field) -> list[tuple[str, int]]:
    """UID and restarts of each pod: unchanged means never stopped."""
    pods = await field.pods("chat")
    return [(pod.metadata.uid, pod.status.container_statuses[0].restart_count) for pod in pods]


def kubectl_in_system(field: Field, *arguments: str) -> None:
    steps.kubectl(field.cluster, "--namespace", steps.SYSTEM, *arguments)


async def kill_the_operator(field: Field) -> None:
    for name in await operator_pods(field.api):
        kubectl_in_system(field, "delete", "pod", name, "--grace-period=0", "--force")


async def test_a_service_scaled_while_the_operator_is_killed_converges(field: Field) -> None:
    field.apply("chat", scaling={"mode": "Manual", "minReplicas": 1, "maxReplicas": 2})
    await field.serving("chat")

    field.kubectl("scale", "kvis", "chat", "--replicas=2")
    await kill_the_operator(field)

    async def two_are_ready() -> bool:
        return (await field.resource("chat"))["status"].get("readyReplicas") == 2

    await eventually("two replicas after the operator came back", two_are_ready, seconds=120)


async def test_an_outage_of_the_api_server_loses_no_request_and_converges_after(field: Field) -> None:
    if field.cluster.source is not lab.Source.LAB:
        pytest.skip("only the lab's own API server may be stopped")
    field.apply("chat", scaling={"mode": "Manual", "minReplicas": 1, "maxReplicas": 2})
    url = await field.serving("chat")
    load = Load(url, steps.MODEL)
    phase = Phase("outage", rate=0.2, seconds=OUTAGE_SECONDS + 10)
    playing = asyncio.create_task(load.play(phase, itertools.cycle(read_prompts()), seed=5))
    await asyncio.sleep(5)

    layout = field.cluster.layout
    await asyncio.to_thread(processes.stop, layout, API_SERVER)
    await asyncio.sleep(OUTAGE_SECONDS)
    await asyncio.to_thread(processes.restart, layout, API_SERVER)
    await eventually("the API server is back", lambda: asyncio.to_thread(is_ready, layout), seconds=60)
    field.kubectl("scale", "kvis", "chat", "--replicas=2")

    async def two_are_ready() -> bool:
        return (await field.resource("chat"))["status"].get("readyReplicas") == 2

    await eventually("the operator follows again", two_are_ready, seconds=120)
    await playing
    await load.finish()
    assert load.tally.lost == 0, load.tally.faults
    assert load.tally.ok == load.tally.sent > 5


async def test_an_upgraded_operator_restarts_no_pod_of_an_unchanged_service(field: Field) -> None:
    field.apply("chat")
    await field.serving("chat")
    before = await lives(field)
    old = await operator_pods(field.api)
    patch = {"spec": {"template": {"metadata": {"annotations": {"test.kvis.dev/upgrade": "1"}}}}}

    kubectl_in_system(field, "patch", "deployment", steps.RELEASE, "-p", json.dumps(patch))
    kubectl_in_system(field, "rollout", "status", f"deployment/{steps.RELEASE}", "--timeout=90s")

    async def a_new_operator_runs() -> bool:
        return not set(old) & set(await operator_pods(field.api))

    await eventually("a new operator pod", a_new_operator_runs, seconds=60)
    await asyncio.sleep(15)  # several passes of the new operator
    assert await lives(field) == before

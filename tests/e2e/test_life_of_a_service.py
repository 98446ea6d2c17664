"""A service from apply to delete, with real pods and real answers."""

import asyncio
import itertools
from collections.abc import Iterator

import httpx
import pytest
from kubernetes.aio import client

from demo import steps
from demo.load import Load
from demo.summary import cap_changes
from demo.traffic import Phase, Prompt, read_prompts
from demo.watch import Watch, replica_history
from e2e.field import Field, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SMALL = Phase("steady", rate=0.2, seconds=60)
PRESSURE = Phase("pressure", rate=0.8, seconds=60)
# All at once: eight run together on however fast a machine.
OUTGROWING = Phase("outgrowing", rate=8, seconds=4)


def short_prompts_with_long_answers() -> Iterator[Prompt]:
    return (
        Prompt(tokens=tuple(range(first, first + 16)), max_tokens=128) for first in itertools.count(1000, 16)
    )


def the_load(url: str) -> Load:
    return Load(url, steps.MODEL)


async def test_an_applied_service_answers_and_a_deleted_one_leaves_nothing(field: Field) -> None:
    field.apply("chat")
    url = await field.serving("chat")
    assert "Paris" in await steps.ask(url)

    field.kubectl("delete", "kvis", "chat")

    async def nothing_is_left() -> bool:
        core, apps = client.CoreV1Api(field.api), client.AppsV1Api(field.api)
        policy = client.PolicyV1Api(field.api)
        lists = await asyncio.gather(
            core.list_namespaced_pod(field.namespace),
            core.list_namespaced_service(field.namespace),
            apps.list_namespaced_deployment(field.namespace),
            policy.list_namespaced_pod_disruption_budget(field.namespace),
        )
        maps = await core.list_namespaced_config_map(field.namespace)
        ours = [each for each in maps.items if each.metadata.name != "kube-root-ca.crt"]
        return not ours and not any(each.items for each in lists)

    await eventually("everything of the service is gone", nothing_is_left, seconds=90)


async def test_pressure_scales_out_and_quiet_scales_in_without_a_lost_request(field: Field) -> None:
    field.apply("chat")
    url = await field.serving("chat")
    watch = Watch(field.api, field.namespace, "chat")
    watching = asyncio.create_task(watch.run())
    load = the_load(url)
    await load.play(PRESSURE, itertools.cycle(read_prompts()), seed=3)

    async def two_are_ready() -> bool:
        return (await field.resource("chat"))["status"].get("readyReplicas") == 2

    async def one_is_left() -> bool:
        resource = await field.resource("chat")
        return resource["spec"]["replicas"] == 1 and len(await field.pods("chat")) == 1

    await eventually("two replicas ready", two_are_ready, seconds=120)
    await load.finish()
    await eventually("back to one replica", one_is_left, seconds=200)
    watching.cancel()
    watch.looks.append(await watch.look())

    assert load.tally.lost == 0, load.tally.faults
    assert load.tally.ok == load.tally.sent > 30
    assert [count for _, count in replica_history(watch.looks)] == [1, 2, 1]


async def test_answers_that_outgrow_the_cache_lower_the_cap_of_the_running_pod(field: Field) -> None:
    """Eight of them need twice the cache: preemptions are counted, a full cache is a moment that a tick may miss."""
    field.apply(
        "chat",
        model={"uri": "bundled://smollm2-135m", "maxLength": 512},
        kvCache={"memory": "24Mi", "blockSize": 16},
        scaling={"minReplicas": 1, "maxReplicas": 1},
    )
    url = await field.serving("chat")
    (pod,) = await field.pods("chat")
    watch = Watch(field.api, field.namespace, "chat")
    watching = asyncio.create_task(watch.run())
    load = the_load(url)
    playing = asyncio.create_task(load.play(OUTGROWING, short_prompts_with_long_answers(), seed=5))

    async def the_cap_is_lower() -> bool:
        return bool(watch.looks) and watch.looks[-1].caps.get(pod.metadata.name, 8) < 8

    await eventually("a lower cap on the running pod", the_cap_is_lower, seconds=150)
    await playing
    await load.finish()
    watching.cancel()

    assert load.tally.lost == 0, load.tally.faults
    assert load.tally.ok == load.tally.sent > 20
    assert cap_changes(watch.looks) >= 1
    assert [each.metadata.uid for each in await field.pods("chat")] == [pod.metadata.uid]


async def test_an_edited_field_rolls_the_pods_without_a_lost_request(field: Field) -> None:
    field.apply("chat")
    url = await field.serving("chat")
    before = {pod.metadata.uid for pod in await field.pods("chat")}
    load = the_load(url)
    playing = asyncio.create_task(load.play(SMALL, itertools.cycle(read_prompts()), seed=4))
    await asyncio.sleep(5)

    field.apply("chat", kvCache={"memory": "256Mi", "blockSize": 16})

    async def only_new_pods_serve() -> bool:
        pods = await field.pods("chat")
        return len(pods) == 1 and pods[0].metadata.uid not in before

    await eventually("the pods rolled", only_new_pods_serve, seconds=120)
    await playing
    await load.finish()
    assert load.tally.lost == 0, load.tally.faults
    assert load.tally.ok == load.tally.sent > 5


async def test_a_killed_pod_is_replaced_and_the_service_answers_again(field: Field) -> None:
    field.apply("chat")
    url = await field.serving("chat")
    (pod,) = await field.pods("chat")

    field.kubectl("delete", "pod", pod.metadata.name, "--grace-period=0", "--force")

    async def answers() -> bool:
        async with httpx.AsyncClient(timeout=5) as http:
            return (await http.get(f"{url}/ready")).status_code == httpx.codes.OK

    async def another_is_ready() -> bool:
        pods = await field.pods("chat")
        return [each.metadata.uid for each in pods] != [pod.metadata.uid] and await answers()

    await eventually("a new pod serves", another_is_ready, seconds=120)
    assert "Paris" in await steps.ask(url)

"""Gathering: ticks come by a clock that nobody can step, and passes between them see the last observation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest_asyncio
from kubernetes.aio import client

from kvis_operator.cluster.client import Kube
from kvis_operator.cluster.fence import Fence
from kvis_operator.cluster.lease import LeaseLock
from kvis_operator.observe.cluster import ClusterView
from kvis_operator.observe.scrape import ScrapeLimits, Scraper
from kvis_operator.reconcile.gather import gather
from kvis_operator.reconcile.world import LoopTimes, World
from scenes import NOON, a_body, a_memory
from service_builders import a_table


@dataclass
class Clocks:
    wall: float = NOON
    steady: float = 1000.0


@dataclass
class Running:
    world: World
    clocks: Clocks


@pytest_asyncio.fixture
async def running() -> AsyncIterator[Running]:
    """A world whose API server nobody asks and whose services have no pods."""
    api = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    fence, clocks = Fence(lease_seconds=15), Clocks()
    lock = LeaseLock(name="l", namespace="ns", identity="me", api=api, fence=fence)
    scraper = Scraper(ScrapeLimits())
    world = World(
        view=ClusterView(),
        kube=Kube(api, fence, lock),
        scraper=scraper,
        profiles=a_table(),
        identity="me",
        times=LoopTimes(tick=15),
        now=lambda: clocks.wall,
        steady=lambda: clocks.steady,
    )
    yield Running(world, clocks)
    await scraper.close()
    await api.close()


async def test_the_first_look_is_a_tick_and_the_next_comes_after_its_time(running: Running) -> None:
    memory, body = a_memory(), a_body()
    ticks = []
    for seconds in (0, 5, 10):
        running.clocks.steady += seconds
        ticks.append((await gather(running.world, body, memory)).is_tick)
    assert ticks == [True, False, True]


async def test_a_step_of_the_wall_clock_neither_stops_nor_hurries_ticks(running: Running) -> None:
    memory, body = a_memory(), a_body()
    await gather(running.world, body, memory)
    running.clocks.wall += 600
    assert not (await gather(running.world, body, memory)).is_tick
    running.clocks.wall -= 1200
    running.clocks.steady += 15
    assert (await gather(running.world, body, memory)).is_tick


async def test_a_changed_wish_is_decided_on_at_once_and_replicas_are_none(running: Running) -> None:
    memory = a_memory()
    await gather(running.world, a_body(), memory)
    assert not (await gather(running.world, a_body(replicas=3), memory)).is_tick
    assert (await gather(running.world, a_body(scaling={"maxReplicas": 4}), memory)).is_tick


async def test_a_pass_between_ticks_sees_the_last_observation(running: Running) -> None:
    memory, body = a_memory(), a_body()
    await gather(running.world, body, memory)
    seen = memory.observation
    await gather(running.world, body, memory)
    assert memory.observation is seen is not None

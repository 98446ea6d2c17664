"""Readiness and liveness follow the engine's progress, not only that the process answers."""

import asyncio
import contextlib

import httpx

from kvis_runtime.engine.request import Request, SamplingParams
from kvis_runtime.serve.engine_thread import EngineThread
from kvis_runtime.serve.lifecycle import Lifecycle, Phase
from kvis_runtime.serve.metrics import CacheConfig, ServingMetrics
from kvis_runtime.serve.openai import DEAD_STALL_SECONDS, UNREADY_STALL_SECONDS, PublicApp
from serving.codec import a_codec
from serving.running import MODEL_NAME, an_engine
from serving.waiting import eventually


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@contextlib.asynccontextmanager
async def a_stuck_pod(clock):
    """Yield a client of a pod whose engine has work and produces nothing."""
    engine = an_engine()
    engine.running_allowed.clear()
    thread = EngineThread(lambda: engine, clock=clock)
    lifecycle = Lifecycle()
    metrics = ServingMetrics(MODEL_NAME, CacheConfig("float32", True), lifecycle)
    app = PublicApp(MODEL_NAME, a_codec(), thread, lifecycle, metrics).app()
    await thread.start()
    lifecycle.advance(Phase.READY)
    thread.submit([Request("a", (1,), SamplingParams())])
    await eventually(lambda: thread.snapshot.stats.steps > 0)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://pod") as client:
        try:
            yield client, engine
        finally:
            thread.stop(timeout=2)


async def statuses(client):
    return [(await client.get(path)).status_code for path in ("/ready", "/health")]


async def test_a_slow_step_is_no_reason_to_leave():
    clock = Clock()
    async with a_stuck_pod(clock) as (client, _):
        clock.now += UNREADY_STALL_SECONDS - 1
        assert await statuses(client) == [200, 200]


async def test_a_stuck_engine_is_unready_first_and_dead_later():
    clock = Clock()
    async with a_stuck_pod(clock) as (client, _):
        clock.now += UNREADY_STALL_SECONDS + 1
        assert await statuses(client) == [503, 200]
        clock.now += DEAD_STALL_SECONDS
        assert await statuses(client) == [503, 503]


async def test_an_engine_that_goes_on_is_ready_again():
    clock = Clock()
    async with a_stuck_pod(clock) as (client, engine):
        clock.now += UNREADY_STALL_SECONDS + 1
        engine.running_allowed.set()
        async with asyncio.timeout(10):
            while await statuses(client) != [200, 200]:  # noqa: ASYNC110 - what is awaited is the answer itself
                await asyncio.sleep(0.005)

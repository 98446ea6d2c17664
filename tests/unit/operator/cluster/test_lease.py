"""The lease against a server that misbehaves: faults are failed tries, its loss ends the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from kubernetes.aio import client

from kvis_operator.cluster.fence import Fence
from kvis_operator.cluster.lease import LeaseLock, LeaseTimings, lead_while_elected

FAST = LeaseTimings(lease=3, renew=2, retry=1)
PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


@dataclass
class LeaseServer:
    """Keeps one Lease as the API server does; `fault` turns any request into a misbehaviour."""

    stored: dict[str, Any] | None = None
    version: int = 0
    fault: Callable[[web.Request], web.StreamResponse | float | None] = field(default=lambda _: None)
    calls: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(request.method)
        fault = self.fault(request)
        if isinstance(fault, float):
            await asyncio.sleep(fault)
        elif fault is not None:
            return fault
        if request.method == "GET":
            return web.json_response(self.stored) if self.stored else status(404)
        body = await request.json()
        sent = body["metadata"].get("resourceVersion")
        if request.method == "PUT" and sent not in (None, str(self.version)):
            return status(409)
        self.version += 1
        self.stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return web.json_response(self.stored)

    @property
    def holder(self) -> str | None:
        return self.stored["spec"].get("holderIdentity") if self.stored else None


def status(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": "x", "message": "m"}, status=code)


@dataclass
class Candidate:
    lock: LeaseLock
    fence: Fence


@pytest_asyncio.fixture
async def server() -> LeaseServer:
    return LeaseServer()


@pytest_asyncio.fixture
async def candidate(server: LeaseServer) -> AsyncIterator[Callable[[str], Candidate]]:
    app = web.Application()
    app.router.add_route("*", PATH, server.handle)
    app.router.add_route("*", PATH + "/{name}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api = client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}"))

    def build(identity: str) -> Candidate:
        fence = Fence(lease_seconds=FAST.lease)
        lock = LeaseLock(name="l", namespace="ns", identity=identity, api=api, fence=fence, call_seconds=1.0)
        return Candidate(lock, fence)

    yield build
    await api.close()
    await runner.cleanup()


async def nothing() -> None:
    await asyncio.Event().wait()


async def until(check: Callable[[], bool], seconds: float = 8) -> None:
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - looked at from outside
            await asyncio.sleep(0.02)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_the_first_candidate_leads_and_its_fence_is_open(
    server: LeaseServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    task = asyncio.create_task(lead_while_elected(one.lock, one.fence, FAST, nothing))
    await until(lambda: one.fence.remaining_seconds > 0)
    assert server.holder == "one"
    await end(task)


async def test_stopping_releases_the_lease_and_a_standby_takes_over_at_once(
    server: LeaseServer, candidate: Callable[[str], Candidate]
) -> None:
    one, two = candidate("one"), candidate("two")
    first = asyncio.create_task(lead_while_elected(one.lock, one.fence, FAST, nothing))
    await until(lambda: server.holder == "one")
    second = asyncio.create_task(lead_while_elected(two.lock, two.fence, FAST, nothing))
    await end(first)
    assert server.holder is None
    assert one.fence.remaining_seconds == 0
    await until(lambda: server.holder == "two", seconds=3)
    await end(second)


@pytest.mark.parametrize(
    "code", [409, *(pytest.param(code, marks=pytest.mark.slow) for code in (403, 429, 500))]
)
async def test_a_refused_renewal_ends_the_work_within_the_lease(
    server: LeaseServer, candidate: Callable[[str], Candidate], code: int
) -> None:
    one = candidate("one")
    task = asyncio.create_task(lead_while_elected(one.lock, one.fence, FAST, nothing))
    await until(lambda: one.fence.remaining_seconds > 0)
    server.fault = lambda _: status(code)
    async with asyncio.timeout(FAST.lease + 2):
        await task
    assert one.fence.remaining_seconds == 0


async def test_a_hung_call_is_cut_off_and_the_work_ends(
    server: LeaseServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    task = asyncio.create_task(lead_while_elected(one.lock, one.fence, FAST, nothing))
    await until(lambda: one.fence.remaining_seconds > 0)
    server.fault = lambda _: 30.0
    async with asyncio.timeout(FAST.lease + 3):
        await task


async def test_an_answer_that_is_no_json_is_a_failed_try(
    server: LeaseServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    server.fault = lambda _: web.Response(text="<html>", status=200, content_type="text/html")
    task = asyncio.create_task(lead_while_elected(one.lock, one.fence, FAST, nothing))
    await until(lambda: len(server.calls) >= 2)
    server.fault = lambda _: None
    await until(lambda: server.holder == "one")
    await end(task)


async def test_work_that_fails_gives_up_the_office(candidate: Callable[[str], Candidate]) -> None:
    async def broken() -> None:
        raise RuntimeError("ours")

    one = candidate("one")
    with pytest.raises(RuntimeError, match="ours"):
        await lead_while_elected(one.lock, one.fence, FAST, broken)
    assert one.fence.remaining_seconds == 0


async def test_the_live_look_tells_another_holder(
    server: LeaseServer, candidate: Callable[[str], Candidate]
) -> None:
    one, two = candidate("one"), candidate("two")
    task = asyncio.create_task(lead_while_elected(one.lock, one.fence, FAST, nothing))
    await until(lambda: server.holder == "one")
    assert await one.lock.is_ours()
    assert not await two.lock.is_ours()
    await end(task)


async def test_another_ones_lease_is_not_released(
    server: LeaseServer, candidate: Callable[[str], Candidate]
) -> None:
    one, two = candidate("one"), candidate("two")
    task = asyncio.create_task(lead_while_elected(one.lock, one.fence, FAST, nothing))
    await until(lambda: server.holder == "one")
    await two.lock.release()
    assert server.holder == "one"
    await end(task)

"""Scraping: a pod that does not answer properly in time is absent, and never costs the others anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from aiohttp import web

from kvis_operator.observe.pods import PodEndpoint
from kvis_operator.observe.scrape import MAX_BODY_BYTES, ScrapeLimits, Scraper

GOOD = 'vllm:num_requests_running{model_name="m"} 3\n'

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[int]]


@pytest_asyncio.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> int:
        app = web.Application()
        app.router.add_get("/metrics", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    yield start
    for runner in runners:
        await runner.cleanup()


async def scraped(port: int, *, seconds: float = 0.5) -> int:
    """How many of one pod's samples came back."""
    scraper = Scraper(ScrapeLimits(seconds=seconds), port=port)
    try:
        return len(await scraper.scrape([PodEndpoint("pod-0", "uid", "127.0.0.1")]))
    finally:
        await scraper.close()


async def test_a_good_answer_becomes_a_sample(serve: Serve) -> None:
    async def good(_: web.Request) -> web.StreamResponse:
        return web.Response(text=GOOD)

    assert await scraped(await serve(good)) == 1


async def test_m4_a_pod_that_refuses_is_absent(serve: Serve) -> None:
    assert await scraped(1) == 0


async def test_an_error_status_is_absent(serve: Serve) -> None:
    async def broken(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500, text=GOOD)

    assert await scraped(await serve(broken)) == 0


async def test_a_redirect_is_not_followed(serve: Serve) -> None:
    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:1/metrics")

    assert await scraped(await serve(elsewhere)) == 0


async def test_too_large_an_answer_is_absent(serve: Serve) -> None:
    async def large(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"# " + b"x" * (MAX_BODY_BYTES + 1))

    assert await scraped(await serve(large)) == 0


async def test_a_hung_pod_costs_its_deadline_and_no_more(serve: Serve) -> None:
    async def hung(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response(text=GOOD)

    began = time.monotonic()
    assert await scraped(await serve(hung), seconds=0.2) == 0
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("pods", [50])
async def test_hung_pods_do_not_keep_others_waiting_beyond_their_own_deadline(
    serve: Serve, pods: int
) -> None:
    async def good(_: web.Request) -> web.StreamResponse:
        return web.Response(text=GOOD)

    scraper = Scraper(ScrapeLimits(seconds=2, at_once=4), port=await serve(good))
    found = await scraper.scrape([PodEndpoint(str(n), str(n), "127.0.0.1") for n in range(pods)])
    await scraper.close()
    assert len(found) == pods

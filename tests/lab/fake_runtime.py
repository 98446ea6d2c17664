"""A runtime that only pretends: the HTTP face of one fake pod, with numbers that the test sets.

It answers on the pod's own loopback address at the runtime's two ports, with the metric names of
`kvis_kv.series`, so that an operator on this machine reads and steers it like a real one. Admin calls are
accepted unverified and kept, for the test to look at.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from aiohttp import web

from kvis_kv import flags, series

HANG_SECONDS: Final = 3600.0
MODEL: Final = "fake"


class Metrics(Enum):
    """How the pod answers a scrape."""

    GOOD = "good"
    GARBAGE = "garbage"  # text that is no exposition format
    IMPOSSIBLE = "impossible"  # values that cannot be: usage 7.5, negative counters, NaN
    EMPTY = "empty"  # 200 and no series
    ERROR = "error"  # 500
    HANG = "hang"  # accepts the connection and never answers


@dataclass(slots=True)
class Load:
    """What the fake engine reports. Set any field at any time; the next scrape shows it."""

    running: int = 0
    waiting: int = 0
    total_blocks: int = 1000
    referenced_blocks: int = 0
    cached_blocks: int = 0
    block_size: int = 16
    max_num_seqs: int = 16
    cap: int = 16
    prefix_queries: int = 0  # tokens
    prefix_hits: int = 0  # tokens
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
    steps: int = 0
    busy_seconds: float = 0.0


@dataclass(slots=True)
class FakeRuntime:
    """One pod's server. `calls` are the admin calls that it got, oldest first."""

    address: str
    load: Load = field(default_factory=Load)
    metrics: Metrics = Metrics.GOOD
    ready: bool = False
    draining: bool = False
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    _runners: list[web.AppRunner] = field(default_factory=list)

    async def start(self) -> None:
        """Listen on both ports of the pod's address."""
        public = web.Application()
        public.add_routes([web.get("/health", self._health), web.get("/ready", self._ready)])
        public.add_routes([web.get("/metrics", self._metrics), web.get("/v1/models", self._models)])
        admin = web.Application()
        admin.add_routes([web.get("/kvis/state", self._state), web.put("/kvis/limits", self._limits)])
        admin.add_routes([web.post("/kvis/drain", self._drain)])
        admin.add_routes([web.post("/kvis/reset-prefix-cache", self._reset)])
        for app, port in ((public, flags.PUBLIC_PORT), (admin, flags.ADMIN_PORT_NUMBER)):
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            self._runners.append(runner)
            await web.TCPSite(runner, self.address, port, reuse_address=True).start()

    async def stop(self) -> None:
        """Close the ports; a hanging scrape is cut."""
        while self._runners:
            await self._runners[-1].cleanup()
            self._runners.pop()  # not before: a cleanup that is cancelled must be possible to repeat

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _ready(self, _: web.Request) -> web.Response:
        able = self.ready and not self.draining
        return web.json_response({"ready": able}, status=200 if able else 503)

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def _metrics(self, _: web.Request) -> web.Response:
        match self.metrics:
            case Metrics.GOOD:
                return web.Response(text=exposition(self.load, draining=self.draining))
            case Metrics.IMPOSSIBLE:
                return web.Response(text=impossible())
            case Metrics.GARBAGE:
                return web.Response(text="<html>it works</html>\n\x00{{{")
            case Metrics.EMPTY:
                return web.Response(text="")
            case Metrics.ERROR:
                return web.Response(status=500, text="boom")
            case Metrics.HANG:
                await asyncio.sleep(HANG_SECONDS)
                return web.Response(text="")

    async def _state(self, request: web.Request) -> web.Response:
        self._keep(request, None)
        load = self.load
        state = {
            "running": load.running,
            "waiting": load.waiting,
            "maxNumActiveSeqs": load.cap,
            "maxNumSeqs": load.max_num_seqs,
            "blockSize": load.block_size,
            "draining": self.draining,
            "inFlight": load.running + load.waiting,
        }
        return web.json_response(state)

    async def _limits(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._keep(request, body)
        self.load.cap = max(1, min(int(body["maxNumActiveSeqs"]), self.load.max_num_seqs))
        return web.json_response({"maxNumActiveSeqs": self.load.cap, "maxNumSeqs": self.load.max_num_seqs})

    async def _drain(self, request: web.Request) -> web.Response:
        self._keep(request, None)
        self.draining = True
        return web.json_response({"draining": True, "inFlight": self.load.running + self.load.waiting})

    async def _reset(self, request: web.Request) -> web.Response:
        self._keep(request, None)
        self.load.cached_blocks = 0
        return web.json_response({"reset": True})

    def _keep(self, request: web.Request, body: Any) -> None:
        self.calls.append((request.method, request.path, body))


def exposition(load: Load, *, draining: bool) -> str:
    """The load in Prometheus' text format, under the runtime's names."""
    free = load.total_blocks - load.referenced_blocks - load.cached_blocks
    config = f'block_size="{load.block_size}",num_gpu_blocks="{load.total_blocks}"'
    values: list[tuple[str, str, str, float]] = [
        ("gauge", series.REQUESTS_RUNNING, "", load.running),
        ("gauge", series.REQUESTS_WAITING, "", load.waiting),
        ("gauge", series.KV_CACHE_USAGE, "", load.referenced_blocks / load.total_blocks),
        ("counter", series.PREFIX_QUERIES, "", load.prefix_queries),
        ("counter", series.PREFIX_HITS, "", load.prefix_hits),
        ("counter", series.PROMPT_TOKENS, "", load.prompt_tokens),
        ("counter", series.PROMPT_TOKENS_CACHED, "", load.prefix_hits),
        ("counter", series.GENERATION_TOKENS, "", load.generation_tokens),
        ("counter", series.PREEMPTIONS, "", load.preemptions),
        ("counter", series.REQUEST_SUCCESS, 'finished_reason="stop"', load.finished),
        ("gauge", series.CACHE_CONFIG_INFO, config, 1),
        ("gauge", series.KV_BLOCKS, 'state="referenced"', load.referenced_blocks),
        ("gauge", series.KV_BLOCKS, 'state="cached"', load.cached_blocks),
        ("gauge", series.KV_BLOCKS, 'state="free"', free),
        ("gauge", series.MAX_NUM_SEQS, "", load.max_num_seqs),
        ("gauge", series.MAX_NUM_ACTIVE_SEQS, "", load.cap),
        ("counter", series.ENGINE_STEPS, "", load.steps),
        ("counter", series.ENGINE_BUSY_SECONDS, "", load.busy_seconds),
        ("gauge", series.DRAINING, "", int(draining)),
    ]
    return _text(values)


def impossible() -> str:
    """Values that no engine can have."""
    return _text(
        [
            ("gauge", series.REQUESTS_RUNNING, "", -3),
            ("gauge", series.REQUESTS_WAITING, "", float("nan")),
            ("gauge", series.KV_CACHE_USAGE, "", 7.5),
            ("counter", series.PROMPT_TOKENS, "", -1e18),
        ]
    )


def _text(values: list[tuple[str, str, str, float]]) -> str:
    lines: list[str] = []
    typed: set[str] = set()
    for kind, name, labels, value in values:
        if name not in typed:
            lines.append(f"# TYPE {name} {kind}")
            typed.add(name)
        every = ",".join(each for each in (f'model_name="{MODEL}"', labels) if each)
        lines.append(f"{name}{{{every}}} {value}")
    return "\n".join(lines) + "\n"

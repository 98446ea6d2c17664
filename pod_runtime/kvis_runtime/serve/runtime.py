"""Wires the serving side together: engine thread, gate, applications, drain.

Nothing runs yet after `build`; `server` runs it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp

from kvis_runtime.engine.request import Request, SamplingParams
from kvis_runtime.serve.admin import ADMIN_POLICY, Admin
from kvis_runtime.serve.admin_auth import AdminAuth
from kvis_runtime.serve.backend import Backend
from kvis_runtime.serve.drain import Drain
from kvis_runtime.serve.engine_thread import EngineThread
from kvis_runtime.serve.gate import Backlog, Gate
from kvis_runtime.serve.lifecycle import Lifecycle, Phase
from kvis_runtime.serve.metrics import CacheConfig, ServingMetrics
from kvis_runtime.serve.openai import PUBLIC_POLICY, PublicApp
from kvis_runtime.serve.settings import ServeSettings
from kvis_runtime.serve.tokens import TextCodec

WARM_UP_TEXT: Final = "Hello"  # shorter than a block, so it leaves nothing in the prefix cache


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts of one serving process. `public` and `admin` are the applications of the two ports."""

    engine: EngineThread
    lifecycle: Lifecycle
    drain: Drain
    codec: TextCodec
    public: ASGIApp
    admin: ASGIApp

    async def warm_up(self) -> None:
        """Load the engine and generate one token; then the pod is ready. Raises what loading raised."""
        await self.engine.start()
        prompt = tuple(self.codec.encode_text(WARM_UP_TEXT))
        ticket = self.engine.submit([Request("warm-up", prompt, SamplingParams(max_tokens=1))])
        try:
            await ticket.take()
        finally:
            self.engine.release(ticket)
        self.lifecycle.advance(Phase.READY)


def build(settings: ServeSettings, codec: TextCodec, load: Callable[[], Backend]) -> Runtime:
    """Put the parts together; must be called on the event loop that will serve."""
    lifecycle = Lifecycle()
    cache = CacheConfig(settings.cache_dtype, settings.prefix_caching)
    metrics = ServingMetrics(settings.served_name, cache, lifecycle)
    engine = EngineThread(load, on_step_tokens=metrics.stepped)
    metrics.watch(lambda: engine.snapshot)
    public_app = PublicApp(settings.served_name, codec, engine, lifecycle, metrics)

    def backlog() -> Backlog:
        snapshot = engine.snapshot
        cap = 1 if snapshot is None else snapshot.stats.cap
        return Backlog(engine.open_requests, settings.max_num_queued_reqs, cap)

    gate = Gate(public_app.app(), PUBLIC_POLICY, lifecycle, backlog, on_rejected=metrics.rejected)
    drain = Drain(lifecycle, gate, engine, settings.drain)
    auth = AdminAuth(settings.admin_public_key, settings.pod_uid, clock=time.time)
    admin = Admin(engine, lifecycle, gate, auth, drain.begin)
    # The admin port answers in every phase, so its gate has a life of its own.
    admin_gate = Gate(admin.app(), ADMIN_POLICY, Lifecycle(), backlog)
    return Runtime(engine, lifecycle, drain, codec, gate, admin_gate)

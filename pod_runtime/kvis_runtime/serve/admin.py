"""The admin port: what the operator may ask of this pod, each call signed (`admin_auth`).

    GET  /kvis/state                 phase, requests, blocks, limits
    PUT  /kvis/limits                {"maxNumActiveSeqs": n} -> the live cap on running sequences
    POST /kvis/drain                 leave: unready at once, refuse later, finish what is in flight
    POST /kvis/reset-prefix-cache    forget cached prefixes that no request holds

Lowering the cap cancels nothing: running sequences drain down to it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvis_runtime.serve.admin_auth import AdminAuth
from kvis_runtime.serve.backend import Backend
from kvis_runtime.serve.engine_thread import EngineThread
from kvis_runtime.serve.errors import ApiError, bad_request, respond
from kvis_runtime.serve.gate import Gate, Policy
from kvis_runtime.serve.lifecycle import Lifecycle
from kvis_runtime.serve.schemas import read_body

T = TypeVar("T")

APPLY_SECONDS: Final = 1.0  # after which a new cap is answered for without having been seen to hold
ENGINE_SECONDS: Final = 15.0  # for the engine to come to a command: it does so between two steps

ADMIN_POLICY: Final = Policy(
    methods={
        "/kvis/state": frozenset({"GET"}),
        "/kvis/limits": frozenset({"PUT"}),
        "/kvis/drain": frozenset({"POST"}),
        "/kvis/reset-prefix-cache": frozenset({"POST"}),
    },
    generation=frozenset(),
)


class LimitsBody(BaseModel):
    """PUT /kvis/limits."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_num_active_seqs: int = Field(alias="maxNumActiveSeqs")


@dataclass(frozen=True, slots=True)
class Admin:
    """Handlers of the admin port. `gate` is the public port's, whose in-flight count a drain watches."""

    engine: EngineThread
    lifecycle: Lifecycle
    gate: Gate
    auth: AdminAuth
    begin_drain: Callable[[], None]

    def app(self) -> Starlette:
        """Return the ASGI application; the gate in front of it lists the same paths."""
        routes = [
            Route("/kvis/state", self._signed(self._state), methods=["GET"]),
            Route("/kvis/limits", self._signed(self._limits), methods=["PUT"]),
            Route("/kvis/drain", self._signed(self._drain), methods=["POST"]),
            Route("/kvis/reset-prefix-cache", self._signed(self._reset_prefix_cache), methods=["POST"]),
        ]
        return Starlette(routes=routes)

    def _signed(self, handler: Any) -> Any:
        async def handle(request: Request) -> Response:
            try:
                self.auth.check(request.headers.get("authorization"))
                content: dict[str, Any] = await handler(request)
            except ApiError as error:
                return respond(error)
            return JSONResponse(content)

        return handle

    async def _state(self, _: Request) -> dict[str, Any]:
        snapshot = self.engine.snapshot
        stats = None if snapshot is None else snapshot.stats
        return {
            "phase": self.lifecycle.phase.name.lower(),
            "inFlight": self.gate.in_flight,
            "running": stats and stats.running,
            "waiting": stats and stats.waiting,
            "maxNumActiveSeqs": stats and stats.cap,
            "maxNumSeqs": stats and stats.max_num_seqs,
            "blocks": stats
            and {
                "size": stats.block_size,
                "total": stats.blocks_total,
                "referenced": stats.blocks_referenced,
                "cached": stats.blocks_cached,
                "free": stats.blocks_free,
            },
            "stalledSeconds": round(self.engine.stalled_seconds(), 3),
        }

    async def _limits(self, request: Request) -> dict[str, Any]:
        wanted = read_body(LimitsBody, await request.body()).max_num_active_seqs
        ceiling = self._ceiling()
        if not 1 <= wanted <= ceiling:
            message = f"maxNumActiveSeqs: {wanted} is outside 1 to {ceiling}, this pod's maxNumSeqs"
            raise bad_request(message, param="maxNumActiveSeqs")
        # Callers have short time limits and a step can be long. The value was checked, so it will hold from the
        # next step on, whether that is before or after this answer.
        applying = asyncio.create_task(self.engine.call(lambda engine: engine.set_cap(wanted)))
        await asyncio.wait({applying}, timeout=APPLY_SECONDS)
        applied = applying.result() if applying.done() else wanted
        return {"maxNumActiveSeqs": applied, "maxNumSeqs": ceiling}

    async def _drain(self, _: Request) -> dict[str, Any]:
        self.begin_drain()
        return {"draining": True, "phase": self.lifecycle.phase.name.lower(), "inFlight": self.gate.in_flight}

    async def _reset_prefix_cache(self, _: Request) -> dict[str, Any]:
        await self._between_steps(lambda engine: engine.reset_prefix_cache())
        return {"reset": True}

    async def _between_steps(self, work: Callable[[Backend], T]) -> T:
        try:
            async with asyncio.timeout(ENGINE_SECONDS):
                return await self.engine.call(work)
        except TimeoutError as error:
            message = (
                f"The engine did not come to it within {ENGINE_SECONDS:.0f} seconds; it may still do so."
            )
            raise ApiError(504, message, code="engine_busy") from error

    def _ceiling(self) -> int:
        if self.engine.snapshot is None:
            raise ApiError(503, "The model is still loading; try again.", code="loading")
        return self.engine.snapshot.stats.max_num_seqs

"""The public port's application: OpenAI's endpoints, the probes and the metrics page.

Each handler parses, plans and returns an answer; waiting and sending is the answer's own business. The gate
in front of it has checked route, size and room.
"""

import time
from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kvis_runtime.serve.answer import StreamedAnswer, WholeAnswer
from kvis_runtime.serve.calls import ServedModel, check_model, plan_chat, plan_completion
from kvis_runtime.serve.engine_thread import EngineThread
from kvis_runtime.serve.errors import ApiError, respond, unavailable
from kvis_runtime.serve.gate import Policy
from kvis_runtime.serve.generation import ChoicePlan, Generation
from kvis_runtime.serve.lifecycle import Lifecycle, Phase
from kvis_runtime.serve.metrics import ServingMetrics
from kvis_runtime.serve.schemas import ChatBody, CompletionBody, SamplingFields, read_body
from kvis_runtime.serve.shapes import ChatShape, CompletionShape, Shape
from kvis_runtime.serve.tokens import TextCodec

UNREADY_STALL_SECONDS: Final = 60.0  # a step is a few seconds at most, also on a throttled CPU
DEAD_STALL_SECONDS: Final = 180.0

GENERATION_PATHS: Final = frozenset({"/v1/completions", "/v1/chat/completions"})
PUBLIC_POLICY: Final = Policy(
    methods={
        "/v1/models": frozenset({"GET"}),
        "/v1/completions": frozenset({"POST"}),
        "/v1/chat/completions": frozenset({"POST"}),
        "/health": frozenset({"GET"}),
        "/ready": frozenset({"GET"}),
        "/metrics": frozenset({"GET"}),
    },
    generation=GENERATION_PATHS,
)
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class PublicApp:
    """Handlers of the public port. `wall_clock` gives Unix seconds, `clock` monotonic ones."""

    def __init__(
        self,
        name: str,
        codec: TextCodec,
        engine: EngineThread,
        lifecycle: Lifecycle,
        metrics: ServingMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._codec = codec
        self._engine = engine
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._clock = clock
        self._wall_clock = wall_clock
        self._started_at = int(wall_clock())

    def app(self) -> Starlette:
        """Return the ASGI application; the gate in front of it lists the same paths."""
        routes = [
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/completions", self._completions, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/metrics", self._metrics_page, methods=["GET"]),
        ]
        return Starlette(routes=routes, exception_handlers={ApiError: _refuse})

    async def _models(self, _: Request) -> Response:
        model = self._model()
        entry = {
            "id": model.name,
            "object": "model",
            "created": self._started_at,
            "owned_by": "kvis",
            "max_model_len": model.context,
        }
        return JSONResponse({"object": "list", "data": [entry]})

    async def _completions(self, request: Request) -> ASGIApp:
        arrived_at = self._clock()
        body = read_body(CompletionBody, await request.body())
        model = self._model()
        check_model(model, body.model)
        plans = await plan_completion(body, model, self._codec, arrived_at)
        shape = CompletionShape(_call_id(plans), int(self._wall_clock()), self._name)
        return self._answer(body, plans, shape, arrived_at)

    async def _chat(self, request: Request) -> ASGIApp:
        arrived_at = self._clock()
        body = read_body(ChatBody, await request.body())
        model = self._model()
        check_model(model, body.model)
        plans = await plan_chat(body, model, self._codec, arrived_at)
        shape = ChatShape(_call_id(plans), int(self._wall_clock()), self._name)
        return self._answer(body, plans, shape, arrived_at)

    def _answer(
        self, body: SamplingFields, plans: list[ChoicePlan], shape: Shape, arrived_at: float
    ) -> ASGIApp:
        generation = Generation(self._engine, self._metrics, plans, self._codec.decode, arrived_at)
        if body.stream:
            return StreamedAnswer(generation, shape, body.wants_usage_chunk())
        return WholeAnswer(generation, shape)

    async def _health(self, _: Request) -> Response:
        stalled = self._engine.stalled_seconds()
        if self._lifecycle.phase is Phase.FAILED or stalled > DEAD_STALL_SECONDS:
            return JSONResponse({"status": "failed", "stalledSeconds": stalled}, 503)
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: Request) -> Response:
        phase = self._lifecycle.phase
        stalled = self._engine.stalled_seconds()
        is_ready = phase is Phase.READY and stalled <= UNREADY_STALL_SECONDS
        content = {"ready": is_ready, "phase": phase.name.lower(), "stalledSeconds": stalled}
        return JSONResponse(content, 200 if is_ready else 503)

    async def _metrics_page(self, _: Request) -> Response:
        return Response(self._metrics.page(), headers={"content-type": METRICS_TYPE})

    def _model(self) -> ServedModel:
        snapshot = self._engine.snapshot
        if snapshot is None:
            raise unavailable("The model is still loading; try again.", code="loading")
        return ServedModel(self._name, snapshot.stats.max_model_len)


def _call_id(plans: list[ChoicePlan]) -> str:
    return plans[0].request.request_id.rpartition("-")[0]


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return respond(error)

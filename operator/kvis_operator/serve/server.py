"""The operator's HTTP server: `/healthz`, `/readyz`, `/metrics`.

Read-only, nothing in it can change anything.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from kvis_operator.serve.health import Signs, what_is_dead, what_is_missing
from kvis_operator.serve.metrics import OperatorCollector, Sources

Handler = Callable[[web.Request], Awaitable[web.Response]]


def build_app(signs: Signs, sources: Sources) -> web.Application:
    registry = CollectorRegistry()
    registry.register(OperatorCollector(sources))

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        )

    app = web.Application(client_max_size=1024)
    app.router.add_get("/healthz", _answer(lambda: what_is_dead(signs)))
    app.router.add_get("/readyz", _answer(lambda: what_is_missing(signs)))
    app.router.add_get("/metrics", metrics)
    return app


async def start(app: web.Application, *, host: str, port: int) -> web.AppRunner:
    """Listening when it returns; the caller cleans the runner up. OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


def _answer(problem_of: Callable[[], str | None]) -> Handler:
    async def handle(_: web.Request) -> web.Response:
        problem = problem_of()
        return web.Response(status=503, text=problem) if problem else web.Response(text="ok")

    return handle

"""The operator's process: kopf's watches, the lease, the loop and the HTTP server in one event loop.

Order at the start: the server listens; the CRD is waited for; kopf watches; only then is the lease sought.
At the end: the loop stops, the lease is released, kopf ends. When the lease is lost or anything essential
fails, the process ends and is started anew.
"""

import asyncio
import logging
import os
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import kopf
from kubernetes.aio.client import ApiClient

from kvis_operator import handlers
from kvis_operator.api.profile import ProfileTable
from kvis_operator.cli.settings import Settings
from kvis_operator.cluster import connection
from kvis_operator.cluster.client import Kube, UnreachableError
from kvis_operator.cluster.fence import Fence
from kvis_operator.cluster.lease import LeaseLock, LeaseTimings, lead_while_elected
from kvis_operator.cluster.pulse import WatchPulse
from kvis_operator.cluster.resources import SERVICES, WATCHED
from kvis_operator.cluster.runtime_admin import AdminKey, RuntimeAdmin
from kvis_operator.observe.cluster import ClusterView, Key
from kvis_operator.observe.scrape import ScrapeLimits, Scraper
from kvis_operator.reconcile.leading import lead
from kvis_operator.reconcile.one_pass import one_pass
from kvis_operator.reconcile.queue import WorkQueue
from kvis_operator.reconcile.world import LoopTimes, World
from kvis_operator.serve.health import Signs
from kvis_operator.serve.metrics import Sources
from kvis_operator.serve.server import build_app, start

logger = logging.getLogger(__name__)

CRD_RETRY_SECONDS = 2.0
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the administrator provides as files."""

    profiles: ProfileTable
    key: AdminKey | None


async def run_process(settings: Settings, inputs: Inputs) -> int:
    """Exit code: 0 after a signal, 1 when the lease, the watches or the loop were lost."""
    async with AsyncExitStack() as stack:
        process = await _assemble(settings, inputs, stack)
        app = build_app(process.signs(), process.sources())
        runner = await start(app, host=settings.host, port=settings.port)
        stack.push_async_callback(runner.cleanup)
        logger.info("Listening", extra={"addresses": runner.addresses, "identity": process.lock.identity})
        await _until_served(process.world.kube, settings)
        async with _watching(process, settings) as watches:
            return await _until_stopped(process, settings, watches)


@dataclass(slots=True)
class Process:
    """The parts of the running operator."""

    world: World
    queue: WorkQueue
    fence: Fence
    lock: LeaseLock
    pulse: WatchPulse
    api: ApiClient
    synced: asyncio.Event

    def signs(self) -> Signs:
        """What health is judged by."""
        lock, fence = self.lock, self.fence
        return Signs(
            watch_ages=self.pulse.ages,
            queue_oldest_seconds=self.queue.oldest_seconds,
            api_answer_age=lambda: None if lock.answered_at is None else fence.now() - lock.answered_at,
            is_synced=self.synced.is_set,
        )

    def sources(self) -> Sources:
        """What the metrics are computed from."""
        return Sources(
            journal=self.world.journal,
            writes=lambda: self.world.kube.writes,
            queue_depth=lambda: self.queue.depth,
            queue_oldest_seconds=self.queue.oldest_seconds,
            watch_ages=self.pulse.ages,
            is_leader=lambda: self.fence.remaining_seconds > 0,
        )


async def _assemble(settings: Settings, inputs: Inputs, stack: AsyncExitStack) -> Process:
    api = await _client(settings, stack)
    lease_api = await _client(settings, stack)
    namespace = settings.namespace or connection.own_namespace("default")
    fence = Fence(lease_seconds=settings.lease_seconds)
    # A random part, so that a restarted process never takes its predecessor's lease for its own.
    identity = (
        f"{settings.identity or os.environ.get('POD_UID') or os.uname().nodename}-{uuid.uuid4().hex[:8]}"
    )
    lock = LeaseLock(
        name=settings.lease_name, namespace=namespace, identity=identity, api=lease_api, fence=fence
    )
    world = await _world(
        settings, inputs, stack, kube=Kube(api, fence, lock), identity=identity, namespace=namespace
    )

    async def look(key: Key) -> float | None:
        return await one_pass(key, world=world)

    queue = WorkQueue(look, workers=settings.workers, errors=world.journal.errors)
    return Process(world, queue, fence, lock, WatchPulse(), api, asyncio.Event())


async def _world(
    settings: Settings, inputs: Inputs, stack: AsyncExitStack, *, kube: Kube, identity: str, namespace: str
) -> World:
    scraper = Scraper(ScrapeLimits(settings.scrape_seconds, settings.scrapes_at_once))
    stack.push_async_callback(scraper.close)
    admin = RuntimeAdmin(inputs.key) if inputs.key else None
    if admin is not None:
        stack.push_async_callback(admin.close)
    return World(
        view=ClusterView(),
        kube=kube,
        scraper=scraper,
        profiles=inputs.profiles,
        identity=identity,
        admin=admin,
        public_key_pem=inputs.key.public_pem if inputs.key else "",
        policy_namespace=namespace if settings.network_policies else None,
        times=LoopTimes(
            tick=settings.tick_seconds,
            manual_hold=settings.manual_hold_seconds,
            status=settings.status_seconds,
            cache_status=max(settings.status_seconds, LoopTimes().cache_status),
        ),
    )


async def _client(settings: Settings, stack: AsyncExitStack) -> ApiClient:
    api = await connection.connect(settings.kubeconfig)
    stack.push_async_callback(api.close)
    return api


async def _until_served(kube: Kube, settings: Settings) -> None:
    """Wait for the CRD: kopf looks for it once, at its start."""
    while True:
        try:
            if await kube.serves(SERVICES, next(iter(settings.namespaces), None)):
                return
        except UnreachableError as error:
            logger.warning("Waiting for the API server", extra={"error": str(error)})
        await asyncio.sleep(CRD_RETRY_SECONDS)


@asynccontextmanager
async def _watching(process: Process, settings: Settings) -> AsyncIterator["asyncio.Task[None]"]:
    """kopf's task, once its first listings are in the view; it is ended last, for it cancels whatever else
    runs.
    """
    for resource in WATCHED:
        for namespace in settings.namespaces or (None,):
            process.pulse.expect(resource.path(namespace))
    ready, stop = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(_kopf(process, settings, ready, stop))
    try:
        waiter = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        yield task
    finally:
        stop.set()
        await asyncio.wait({task}, timeout=STOP_SECONDS)


async def _kopf(process: Process, settings: Settings, ready: asyncio.Event, stop: asyncio.Event) -> None:
    """kopf with nothing but our event handlers, on our session; ends when `stop` is set."""
    registry, kopf_settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    # Without one kopf asks for the user's name, which a numeric user of a container has none of.
    identity: Any = process.lock.identity
    handlers.configure(kopf_settings)
    handlers.register(registry, process.world.view, process.queue.wake)

    async def login(**_: Any) -> kopf.AiohttpSession:
        session = await connection.watch_session(process.api, process.pulse.trace())
        return kopf.AiohttpSession(aiohttp_session=session, server=connection.server(process.api))

    kopf.on.login(registry=registry, retries=3, errors=kopf.ErrorsMode.PERMANENT)(login)
    await kopf.operator(
        registry=registry,
        settings=kopf_settings,
        standalone=True,
        identity=identity,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        ready_flag=ready,
        stop_flag=stop,
    )


async def _until_stopped(process: Process, settings: Settings, watches: "asyncio.Task[None]") -> int:
    """Lead when elected, until a signal, the loss of the lease or the end of the watches."""
    stopped = _stop_signal()
    process.synced.set()
    timings = LeaseTimings(settings.lease_seconds, settings.renew_seconds, settings.retry_seconds)

    async def work() -> None:
        await lead(
            process.world,
            process.queue,
            namespaces=settings.namespaces,
            resync_seconds=settings.resync_seconds,
        )

    leading = asyncio.create_task(lead_while_elected(process.lock, process.fence, timings, work))
    waiting = asyncio.create_task(stopped.wait())
    await asyncio.wait({leading, waiting, watches}, return_when=asyncio.FIRST_COMPLETED)
    by_signal = stopped.is_set()
    for task in (leading, waiting):
        task.cancel()
    await asyncio.wait({leading, waiting}, timeout=STOP_SECONDS)
    failed = next((t for t in (leading, watches) if t.done() and not t.cancelled() and t.exception()), None)
    if failed is not None:
        logger.error("Stopped by a failure", exc_info=failed.exception())
    logger.info("Stopped", extra={"by": "signal" if by_signal else "loss of the lease or of the watches"})
    return 0 if by_signal and failed is None else 1


def _stop_signal() -> asyncio.Event:
    """Set by SIGTERM and SIGINT. Called after kopf has started, whose own handlers this replaces."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    return stopped

"""The one thread that owns the engine, and the event loop's side of it.

The engine is not thread-safe: everything that touches it runs here, between steps, as a command from a
queue. Results go back once per step in one hand-over, however many sequences produced a token, because
every wake-up of the event loop makes the engine wait for the interpreter lock.

Invariant: every ticket ends with its requests' last output or with one ApiError, also when the engine dies.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from kvis_runtime.engine.request import EngineStats, Output, Request, RequestError
from kvis_runtime.serve.backend import Backend
from kvis_runtime.serve.errors import ApiError, bad_request, unavailable
from kvis_runtime.serve.tickets import Arrival, Ticket

T = TypeVar("T")
Command = Callable[[Backend], object]

THREAD_NAME: Final = "engine"
IDLE_WAIT_SECONDS: Final = 1.0  # an idle thread looks up this often; commands wake it at once
BLOCKED_WAIT_SECONDS: Final = 0.005  # after a step that moved no token, so that it does not spin

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine as of its last step. `busy_seconds` is the time spent in steps since the start."""

    stats: EngineStats
    busy_seconds: float


class EngineThread:
    """Runs an engine. Its public methods belong to the event loop that called `start`."""

    def __init__(
        self,
        load: Callable[[], Backend],
        *,
        on_step_tokens: Callable[[int], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._on_step_tokens = on_step_tokens
        self._clock = clock
        self._thread = threading.Thread(target=self._main, name=THREAD_NAME, daemon=True)
        self._commands: deque[Command] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._idle = True
        self._busy_seconds = 0.0
        self._progressed_at = 0.0
        self._tickets: dict[str, Ticket] = {}
        self._calls: set[asyncio.Future[None]] = set()
        self._closed: ApiError | None = None
        self.snapshot: Snapshot | None = None
        self.failure: BaseException | None = None
        self.died = asyncio.Event()

    async def start(self) -> None:
        """Load the engine in its thread; raises what loading raised."""
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()
        await self._loaded

    def stop(self, *, timeout: float = 0.0) -> None:
        """Let the thread end after its current step, and wait for that up to `timeout` seconds."""
        self._stopping = True
        self._wake.set()
        if timeout > 0 and self._thread.is_alive():
            self._thread.join(timeout)

    @property
    def open_requests(self) -> int:
        """Return how many engine requests are waiting or running."""
        return len(self._tickets)

    def submit(self, requests: Sequence[Request]) -> Ticket:
        """Queue requests; their outputs arrive in the returned ticket. Pair with `release`."""
        if self._closed is not None:
            raise self._closed
        ticket = Ticket([request.request_id for request in requests])
        self._tickets.update((request_id, ticket) for request_id in ticket.request_ids)
        self._command(lambda engine: self._add(engine, requests))
        return ticket

    def release(self, ticket: Ticket) -> None:
        """Forget a ticket and abort what it still has in the engine, so that its blocks are freed."""
        for request_id in ticket.request_ids:
            self.abort(request_id)

    def abort(self, request_id: str) -> None:
        """Stop one request early; nothing of it is delivered any more. Finished ones are left alone."""
        if self._tickets.pop(request_id, None) is not None:
            self._command(lambda engine: engine.abort(request_id))

    def close(self, error: ApiError) -> None:
        """End every open call with `error`, and every later one."""
        self._closed = self._closed or error
        for ticket in set(self._tickets.values()):
            ticket.fail(error)

    async def call(self, work: Callable[[Backend], T]) -> T:
        """Run `work` between two steps and return its result; a ValueError of it is raised here."""
        if self.failure is not None:
            raise engine_failed()
        results: list[T] = []
        done: asyncio.Future[None] = self._loop.create_future()

        def run(engine: Backend) -> None:
            try:
                results.append(work(engine))
            except ValueError as error:
                self._post(_settle, done, error)
            else:
                self._publish(engine)
                self._post(_settle, done, None)

        self._calls.add(done)
        self._command(run)
        try:
            await done
        finally:
            self._calls.discard(done)
        return results[0]

    def stalled_seconds(self) -> float:
        """Return for how long the engine has had work and moved no token; 0 while it has nothing to do."""
        return 0.0 if self._idle else max(0.0, self._clock() - self._progressed_at)

    # --- the engine's thread

    def _main(self) -> None:
        try:
            engine = self._load()
        except Exception as error:  # noqa: BLE001 - `start` raises it
            self._post(self._die, error)
            return
        self._publish(engine)
        self._post(_settle, self._loaded, None)
        try:
            while not self._stopping:
                self._turn(engine)
        except Exception as error:  # the thread's boundary: whatever broke ends every call
            logger.exception("Engine stopped on an error")
            self._post(self._die, error)

    def _turn(self, engine: Backend) -> None:
        self._wake.clear()
        while self._commands:
            self._commands.popleft()(engine)
        if engine.has_work():
            self._step(engine)
            return
        if not self._idle:
            self._idle = True
            self._publish(engine)
        self._wake.wait(IDLE_WAIT_SECONDS)

    def _step(self, engine: Backend) -> None:
        started = self._clock()
        if self._idle:
            self._progressed_at = started
            self._idle = False
        outputs = engine.step()
        ended = self._clock()
        self._busy_seconds += ended - started
        tokens = self._publish(engine)
        if outputs:
            self._post(self._deliver, ended, outputs)
        if outputs or tokens:
            self._progressed_at = ended
            self._on_step_tokens(tokens)
        else:
            self._wake.wait(BLOCKED_WAIT_SECONDS)

    def _add(self, engine: Backend, requests: Sequence[Request]) -> None:
        for request in requests:
            try:
                engine.add(request)
            except ValueError as error:
                self._post(self._refuse, request.request_id, error)
        self._publish(engine)

    def _publish(self, engine: Backend) -> int:
        """Take a new snapshot and return how many tokens were computed since the one before."""
        before, stats = self.snapshot, engine.stats()
        self.snapshot = Snapshot(stats, self._busy_seconds)
        return 0 if before is None else stats.computed_tokens - before.stats.computed_tokens

    # --- hand-over

    def _command(self, command: Command) -> None:
        self._commands.append(command)
        self._wake.set()

    def _post(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            if not self._stopping:  # only at the very end the loop is closed before this thread
                raise

    # --- the event loop

    def _deliver(self, at: float, outputs: Sequence[Output]) -> None:
        for output in outputs:
            ticket = self._tickets.get(output.request_id)
            if ticket is None:
                continue  # released meanwhile
            if output.finished_reason is not None:
                del self._tickets[output.request_id]
            ticket.put(Arrival(at, output))

    def _refuse(self, request_id: str, error: ValueError) -> None:
        ticket = self._tickets.pop(request_id, None)
        if ticket is not None:
            ticket.fail(
                bad_request(str(error), param=error.field if isinstance(error, RequestError) else None)
            )

    def _die(self, error: BaseException) -> None:
        self.failure = error
        _settle(self._loaded, error)
        self.close(engine_failed())
        self._tickets.clear()
        for call in self._calls:
            _settle(call, engine_failed())
        self.died.set()


def engine_failed() -> ApiError:
    """Return what callers are told after the engine died."""
    return unavailable("The model engine failed and this pod restarts; try again.", code="engine_failed")


def _settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)

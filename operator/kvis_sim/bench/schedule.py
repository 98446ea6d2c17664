"""Runs questions that need simulations, over several processes, and stops asking when the time is over.

A question is a generator: it yields the jobs it needs next, gets their rows back, and may then ask for
more, so that a search can depend on what it found. Questions asked first are served first; a job that two
questions need runs once; a row that the store has costs nothing.
"""

import heapq
import itertools
import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kvis_sim.bench.rows import Job, Row, RowStore

T = TypeVar("T")
Question = Generator[Sequence[Job], Mapping[Job, Row], T]
Progress = Callable[[int, int, str], None]


@dataclass(eq=False, slots=True)
class _Open(Generic[T]):
    name: str
    rank: int
    question: Question[T]
    needs: list[Job] = field(default_factory=list)
    missing: int = 0


@dataclass(slots=True)
class Answers(Generic[T]):
    """`unanswered` names the questions that time did not allow."""

    values: dict[str, T] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    simulated: int = 0


def _leave_signals_to_the_parent() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class Scheduler(Generic[T]):
    """`run` simulates one job in a worker process: it must be importable, and so must what it takes and
    returns.
    """

    def __init__(
        self,
        run: Callable[[Job], Row],
        store: RowStore,
        *,
        workers: int,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._run = run
        self._store = store
        self._workers = workers
        self._deadline = deadline
        self._progress = progress
        self._rows: dict[Job, Row] = {}
        self._waiting: dict[Job, list[_Open[T]]] = {}
        self._queue: list[tuple[int, int, Job]] = []
        self._started: set[Job] = set()
        self._order = itertools.count()
        self._answers: Answers[T] = Answers()

    def ask(self, questions: Mapping[str, Question[T]]) -> Answers[T]:
        """`deadline` is on the monotonic clock; what runs when it passes is finished, nothing new is
        started.
        """
        with ProcessPoolExecutor(self._workers, initializer=_leave_signals_to_the_parent) as pool:
            running: dict[Future[Row], Job] = {}
            for rank, (name, question) in enumerate(questions.items()):
                self._advance(_Open(name, rank, question), None)
            while self._left or running:
                while len(running) < self._workers and not self._is_late():
                    if (job := self._next()) is None:
                        break
                    running[pool.submit(self._run, job)] = job
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    self._arrived(running.pop(future), future.result())
                if self._progress:
                    self._progress(self._answers.simulated, self._left + len(running), self._front())
        self._answers.unanswered = sorted(
            {opened.name for opens in self._waiting.values() for opened in opens}
        )
        return self._answers

    @property
    def _left(self) -> int:
        return len(self._waiting.keys() - self._started)

    def _next(self) -> Job | None:
        """The most urgent job; one that several questions wait for is queued for each of them."""
        while self._queue:
            _, _, job = heapq.heappop(self._queue)
            if job in self._waiting and job not in self._started:
                self._started.add(job)
                return job
        return None

    def stop(self) -> None:
        """Starts nothing new from now on; `ask` returns once what runs has ended."""
        self._deadline = float("-inf")

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _front(self) -> str:
        opens = self._waiting.get(self._queue[0][2]) if self._queue else None
        return opens[0].name if opens else ""

    def _arrived(self, job: Job, row: Row) -> None:
        self._store.save(job, row)
        self._rows[job] = row
        self._answers.simulated += 1
        for opened in self._waiting.pop(job):
            opened.missing -= 1
            if opened.missing == 0:
                self._advance(opened, {job: self._rows[job] for job in opened.needs})

    def _advance(self, opened: _Open[T], rows: Mapping[Job, Row] | None) -> None:
        """Drives one question until it waits for a simulation or has its answer."""
        try:
            while True:
                needs = list(next(opened.question) if rows is None else opened.question.send(rows))
                missing = [job for job in dict.fromkeys(needs) if not self._known(job)]
                if missing:
                    opened.needs, opened.missing = needs, len(missing)
                    for job in missing:
                        self._request(job, opened)
                    return
                rows = {job: self._rows[job] for job in needs}
        except StopIteration as answer:
            self._answers.values[opened.name] = answer.value

    def _known(self, job: Job) -> bool:
        if job not in self._rows and (row := self._store.load(job)) is not None:
            self._rows[job] = row
        return job in self._rows

    def _request(self, job: Job, opened: _Open[T]) -> None:
        self._waiting.setdefault(job, []).append(opened)
        heapq.heappush(self._queue, (opened.rank, next(self._order), job))

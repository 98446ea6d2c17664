"""The test double of `Backend`: answers by script, schedules like an engine, computes nothing.

It keeps what the server relies on: a cap on running requests, blocks held until a request ends or is
aborted, outputs that end with a reason, a prefix cache that knows whole prompts. Tests of the server need
no weights.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvis_runtime.engine.request import EngineStats, FinishedReason, Output, Request, RequestError, Timings

BLOCK_SIZE: Final = 16
TOTAL_BLOCKS: Final = 4096
MAX_MODEL_LEN: Final = 2048

Script = Callable[[Request], Sequence[int]]


@dataclass(slots=True)
class _Running:
    request: Request
    answer: Sequence[int]
    cached: int
    arrival: float
    scheduled: float | None = None
    first: float | None = None
    given: int = 0


@dataclass(slots=True)
class ScriptedEngine:
    """Gives each running request one token of `script(request)` per step of `step_seconds`."""

    script: Script
    step_seconds: float = 0.0
    max_num_seqs: int = 8
    fails_at_step: int | None = None
    """Raise at this step, to show what a broken engine does to its callers."""
    running_allowed: threading.Event = field(default_factory=threading.Event)
    """Cleared, steps produce nothing: a stuck engine."""
    aborted: list[str] = field(default_factory=list)
    cap: int = 0
    _waiting: list[_Running] = field(default_factory=list)
    _running: list[_Running] = field(default_factory=list)
    _seen: set[tuple[int, ...]] = field(default_factory=set)
    _counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("queries", "hits", "prompt", "generated", "steps"), 0)
    )

    def __post_init__(self) -> None:
        self.cap = self.max_num_seqs
        self.running_allowed.set()

    def add(self, request: Request) -> None:
        """Queue a request; RequestError when it is longer than the context."""
        if len(request.prompt_token_ids) >= MAX_MODEL_LEN:
            raise RequestError("prompt", f"the prompt must be shorter than {MAX_MODEL_LEN} tokens")
        prompt = request.prompt_token_ids
        reusable = (len(prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE
        cached = reusable if prompt in self._seen else 0
        self._waiting.append(_Running(request, self.script(request), cached, time.monotonic()))

    def abort(self, request_id: str) -> None:
        """Drop a request."""
        self.aborted.append(request_id)
        self._waiting = [entry for entry in self._waiting if entry.request.request_id != request_id]
        self._running = [entry for entry in self._running if entry.request.request_id != request_id]

    def step(self) -> list[Output]:
        """Give every running request its next token."""
        time.sleep(self.step_seconds)
        self._counts["steps"] += 1
        if self._counts["steps"] == self.fails_at_step:
            raise RuntimeError("scripted failure")
        if not self.running_allowed.is_set():
            return []
        while self._waiting and len(self._running) < self.cap:
            self._admit(self._waiting.pop(0))
        outputs = [self._advance(entry) for entry in self._running]
        ended = {output.request_id for output in outputs if output.finished_reason is not None}
        self._running = [entry for entry in self._running if entry.request.request_id not in ended]
        return outputs

    def has_work(self) -> bool:
        """Whether a request waits or runs."""
        return bool(self._waiting or self._running)

    def set_cap(self, cap: int) -> int:
        """Set the cap within the ceiling."""
        self.cap = max(1, min(cap, self.max_num_seqs))
        return self.cap

    def reset_prefix_cache(self) -> None:
        """Forget the prompts seen."""
        self._seen.clear()

    def stats(self) -> EngineStats:
        """Return counters and gauges."""
        referenced = sum(_blocks(len(e.request.prompt_token_ids) + e.given) for e in self._running)
        cached = min(TOTAL_BLOCKS - referenced, sum(_blocks(len(prompt)) for prompt in self._seen))
        counts = self._counts
        return EngineStats(
            running=len(self._running),
            waiting=len(self._waiting),
            blocks_referenced=referenced,
            blocks_cached=cached,
            blocks_free=TOTAL_BLOCKS - referenced - cached,
            blocks_total=TOTAL_BLOCKS,
            block_size=BLOCK_SIZE,
            max_num_seqs=self.max_num_seqs,
            cap=self.cap,
            max_model_len=MAX_MODEL_LEN,
            kv_capacity_tokens=TOTAL_BLOCKS * BLOCK_SIZE,
            last_step_tokens=len(self._running),
            prefix_queries=counts["queries"],
            prefix_hits=counts["hits"],
            prompt_tokens=counts["prompt"],
            generation_tokens=counts["generated"],
            computed_tokens=counts["prompt"] - counts["hits"] + counts["generated"],
            preemptions=0,
            steps=counts["steps"],
        )

    def _admit(self, entry: _Running) -> None:
        entry.scheduled = time.monotonic()
        self._running.append(entry)
        self._counts["prompt"] += len(entry.request.prompt_token_ids)
        self._counts["queries"] += len(entry.request.prompt_token_ids)
        self._counts["hits"] += entry.cached
        self._seen.add(entry.request.prompt_token_ids)

    def _advance(self, entry: _Running) -> Output:
        now = time.monotonic()
        entry.first = entry.first or now
        token = entry.answer[entry.given]
        entry.given += 1
        self._counts["generated"] += 1
        return Output(
            request_id=entry.request.request_id,
            new_token_ids=(token,),
            finished_reason=_reason(entry),
            prompt_tokens=len(entry.request.prompt_token_ids),
            cached_tokens=entry.cached,
            generated_tokens=entry.given,
            preemptions=0,
            timings=Timings(entry.arrival, entry.scheduled, entry.first, now),
        )


def _reason(entry: _Running) -> FinishedReason | None:
    if entry.given == len(entry.answer):
        return FinishedReason.STOP
    return FinishedReason.LENGTH if entry.given == entry.request.params.max_tokens else None


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_SIZE)

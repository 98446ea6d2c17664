"""Requests as the simulator sees them, and what may be done to a trace before replay.

A request is a time, two lengths and, where known, the ids of its prompt's full blocks (equal id = equal
prefix up to and including that block). Traces are columns in compact arrays; everything else is a lazy
stream.

Load is scaled by thinning or by merging shifted copies. There is no function that compresses time: a day
squeezed into three hours turns a three-minute pod start into 24 minutes and punishes every autoscaler.
"""

import heapq
import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Request(NamedTuple):
    at: float  # seconds from the start of the scenario
    prompt: int  # tokens
    output: int  # tokens, at least 1
    blocks: tuple[int, ...] = ()  # ids of full prompt blocks; empty: unknown, nothing can be reused


class TraceError(ValueError):
    """A trace that cannot be replayed; the message names file, line and column."""


@dataclass(slots=True)
class Trace:
    """A recorded trace, times ascending from 0 in seconds. `block_size` None: no prefix ids."""

    name: str
    block_size: int | None = None
    times: "array[float]" = field(default_factory=lambda: array("d"))
    prompts: "array[int]" = field(default_factory=lambda: array("l"))
    outputs: "array[int]" = field(default_factory=lambda: array("l"))
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    timed: bool = True  # False: lengths only, all times 0

    def __len__(self) -> int:
        return len(self.times)

    @property
    def duration(self) -> float:
        """Seconds from the first to the last request."""
        return self.times[-1] if self.times else 0.0

    def append(self, request: Request) -> None:
        self.times.append(request.at)
        self.prompts.append(request.prompt)
        self.outputs.append(request.output)
        if self.block_size is not None:
            self.blocks.append(request.blocks)

    def requests(self, first: int = 0, last: int | None = None) -> Iterator[Request]:
        if not self.timed:
            raise TraceError(f"trace {self.name} has no times: draw lengths from it, it cannot be replayed")
        rows = slice(first, last)
        columns = (self.times[rows], self.prompts[rows], self.outputs[rows])
        if self.block_size is None:
            return map(Request, *columns)
        return map(Request, *columns, self.blocks[rows])


def rotated(trace: Trace, offset: float, id_offset: int = 0) -> Iterator[Request]:
    """The trace as if recording had begun `offset` seconds later; what was skipped comes at the end.

    `id_offset` is added to block ids, so that copies do not share prefixes.
    """
    period = trace.duration
    if not 0.0 <= offset <= period:
        raise ValueError(f"rotation of trace {trace.name} by {offset} s: choose 0 to {period} s")
    split = next((i for i, at in enumerate(trace.times) if at >= offset), len(trace))
    for first, last, shift in ((split, None, -offset), (0, split, period - offset)):
        for at, prompt, output, blocks in trace.requests(first, last):
            ids = tuple(b + id_offset for b in blocks) if id_offset else blocks
            yield Request(at + shift, prompt, output, ids)


def merged(streams: Iterable[Iterator[Request]]) -> Iterator[Request]:
    """One stream of several, in order of time."""
    return heapq.merge(*streams, key=_at)


def _at(request: Request) -> float:
    return request.at


def multiplied(trace: Trace, copies: int, rng: random.Random) -> Iterator[Request]:
    """`copies` times the load: the trace merged with copies of itself rotated by random offsets.

    The k-th copy is rotated into the k-th part of the period, so that peaks do not coincide by luck;
    prefixes of different copies are different. One copy is the trace itself.
    """
    if copies < 1:
        raise ValueError(f"multiplying trace {trace.name} by {copies}: choose 1 or more, thin() for less")
    stride = 1 + max((max(ids) for ids in trace.blocks if ids), default=0) if copies > 1 else 0
    streams = [trace.requests()]
    for k in range(1, copies):
        offset = trace.duration * (k + rng.random() * 0.5) / copies
        streams.append(rotated(trace, offset, k * stride))
    return streams[0] if copies == 1 else merged(streams)


def thin(stream: Iterator[Request], keep: float, rng: random.Random) -> Iterator[Request]:
    """Each request stays with probability `keep`, independently."""
    if not 0.0 < keep <= 1.0:
        raise ValueError(f"thinning keeps a fraction in (0, 1], got {keep}")
    return (request for request in stream if rng.random() < keep)


def until(stream: Iterator[Request], end: float) -> Iterator[Request]:
    """The stream's requests before `end` seconds."""
    for request in stream:
        if request.at >= end:
            return
        yield request


def delayed(stream: Iterator[Request], seconds: float) -> Iterator[Request]:
    """The same stream, later by `seconds`."""
    return (request._replace(at=request.at + seconds) for request in stream)


@dataclass(frozen=True, slots=True)
class SharedPrefixes:
    """A stated model of reuse for traces without prefix ids: system prompts shared by groups of requests.

    A request belongs to one of `groups` (popularity ~ 1/rank) and its first `fraction` of the prompt, in
    full blocks of `block_size`, is the group's prefix; the rest is never seen again. So `fraction` bounds
    the token hit rate from above. From `switch_at` seconds on all groups have new prefixes (a system
    prompt was changed).
    """

    fraction: float
    block_size: int
    groups: int = 8
    longest_prompt: int = 32_768
    switch_at: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.fraction <= 1.0:
            raise ValueError(f"shared prefix fraction is between 0 and 1, got {self.fraction}")
        if self.block_size < 1 or self.groups < 1:
            raise ValueError(f"block_size and groups are at least 1, got {self.block_size} and {self.groups}")

    def apply(self, stream: Iterator[Request], rng: random.Random) -> Iterator[Request]:
        length = self.longest_prompt // self.block_size
        span = self.groups * length
        old = [tuple(range(g * length, (g + 1) * length)) for g in range(self.groups)]
        new = [tuple(b + span for b in ids) for ids in old]
        ranks = _cumulative([1.0 / (g + 1) for g in range(self.groups)])
        for request in stream:
            (group,) = rng.choices(range(self.groups), cum_weights=ranks)
            switched = self.switch_at is not None and request.at >= self.switch_at
            shared = int(self.fraction * request.prompt) // self.block_size
            prefix = (new if switched else old)[group][:shared]
            yield Request(request.at, request.prompt, request.output, prefix)


def _cumulative(weights: Sequence[float]) -> list[float]:
    total, sums = 0.0, []
    for weight in weights:
        total += weight
        sums.append(total)
    return sums

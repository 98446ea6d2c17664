"""A request inside a replica, and what the engine is allowed to do with it."""

from dataclasses import dataclass
from typing import Protocol

from kvis_sim.workload import Request


class Sequence:
    """A request inside a replica. `context` tokens must be in the KV cache before it emits `left` more
    tokens.
    """

    __slots__ = (
        "admitted_at",
        "blocks",
        "context",
        "decoding",
        "finish_step",
        "first_at",
        "left",
        "order",
        "request",
        "todo",
    )

    def __init__(self, request: Request) -> None:
        self.request = request
        self.blocks = request.blocks
        self.context = request.prompt
        self.left = request.output
        self.first_at = -1.0  # seconds; negative: no token yet
        self.admitted_at = 0.0
        self.todo = 0  # prompt tokens still to compute; an estimate while waiting
        self.decoding = False
        self.finish_step = 0
        self.order = 0


class Sink(Protocol):
    """Who wants to know that a request is done."""

    def finished(self, sequence: Sequence, now: float) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineLimits:
    max_num_seqs: int
    max_num_batched_tokens: int
    noise: float = 0.0  # relative standard deviation of one step's time

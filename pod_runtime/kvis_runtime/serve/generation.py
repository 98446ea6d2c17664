"""One HTTP call from its engine requests to pieces of text.

A job holds one choice per prompt and per `n`. Each choice has its own decoder and stop scanner; all share
one ticket, so that a step that feeds several choices costs one wake-up. A choice that meets a stop string
ends there and is aborted in the engine; leaving early, for whatever reason, aborts all that still runs.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kvis_runtime.engine.request import Output, Request
from kvis_runtime.serve.detokenize import Detokenizer
from kvis_runtime.serve.engine_thread import EngineThread
from kvis_runtime.serve.errors import ApiError, unavailable
from kvis_runtime.serve.stops import StopScanner
from kvis_runtime.serve.tickets import Arrival


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """What one choice asks of the engine. `prompt` is the number of its prompt within the call."""

    index: int
    prompt: int
    request: Request
    stops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a choice; `finish_reason` ("stop" | "length") comes with the last one."""

    index: int
    text: str
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a call; a prompt counts once, however many choices it has."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


@dataclass(slots=True)
class Timeline:
    """When a choice arrived, was first answered and last answered; seconds of the monotonic clock."""

    arrived_at: float
    first_at: float | None = None
    last_at: float | None = None
    tokens: int = 0


class Meter(Protocol):
    """Who counts what choices experience (`metrics.ServingMetrics`)."""

    def answered(self, timeline: Timeline, at: float, new_tokens: int) -> None:
        """Note that `new_tokens` of a choice arrived; updates its timeline."""

    def finished(self, reason: str, timeline: Timeline, output: Output | None) -> None:
        """Note the end of a choice (stop, length, abort, error); `output` is the engine's last word."""


@dataclass(slots=True)
class _Choice:
    plan: ChoicePlan
    detokenizer: Detokenizer
    stops: StopScanner
    timeline: Timeline
    cached_tokens: int = 0
    finish_reason: str | None = None

    def push(self, output: Output) -> Delta:
        text = self.stops.push(self.detokenizer.push(output.new_token_ids))
        self.cached_tokens = output.cached_tokens
        if self.stops.stopped:
            self.finish_reason = "stop"
        elif output.finished_reason is not None:
            text += self.stops.finish()
            self.finish_reason = output.finished_reason
        return Delta(self.plan.index, text, self.finish_reason)


@dataclass(slots=True)
class Generation:
    """Runs the choices of one call. Iterate `deltas` once; `usage` is complete after it."""

    engine: EngineThread
    meter: Meter
    plans: Sequence[ChoicePlan]
    decode: Callable[[list[int]], str]
    arrived_at: float
    _choices: dict[str, _Choice] = field(default_factory=dict)

    async def deltas(self) -> AsyncGenerator[list[Delta], None]:
        """Yield the new text of each hand-over until all choices ended; ApiError when it cannot go on."""
        self._choices = {plan.request.request_id: self._start(plan) for plan in self.plans}
        ticket = self.engine.submit([plan.request for plan in self.plans])
        end = "abort"
        try:
            while any(choice.finish_reason is None for choice in self._choices.values()):
                deltas = [
                    delta for arrival in await ticket.take() if (delta := self._push(arrival)) is not None
                ]
                if deltas:
                    yield deltas
        except ApiError:
            end = "error"
            raise
        finally:
            self.engine.release(ticket)
            for choice in self._choices.values():
                if choice.finish_reason is None:
                    self.meter.finished(end, choice.timeline, None)

    def usage(self) -> Usage:
        """Return the token counts so far."""
        first_of_prompt = {choice.plan.prompt: choice for choice in reversed(self._choices.values())}
        return Usage(
            prompt_tokens=sum(len(c.plan.request.prompt_token_ids) for c in first_of_prompt.values()),
            completion_tokens=sum(choice.timeline.tokens for choice in self._choices.values()),
            cached_tokens=sum(choice.cached_tokens for choice in first_of_prompt.values()),
        )

    def _start(self, plan: ChoicePlan) -> _Choice:
        detokenizer = Detokenizer(self.decode, plan.request.prompt_token_ids)
        return _Choice(plan, detokenizer, StopScanner(plan.stops), Timeline(self.arrived_at))

    def _push(self, arrival: Arrival) -> Delta | None:
        output = arrival.output
        choice = self._choices[output.request_id]
        if choice.finish_reason is not None:
            return None  # produced before the abort at a stop string took effect
        if output.finished_reason == "abort":
            raise unavailable("The engine gave the request up; try again.", code="aborted")
        self.meter.answered(choice.timeline, arrival.at, len(output.new_token_ids))
        delta = choice.push(output)
        if delta.finish_reason is not None:
            self.engine.abort(output.request_id)
            self.meter.finished(delta.finish_reason, choice.timeline, output)
        return delta

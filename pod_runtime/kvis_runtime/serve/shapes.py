"""JSON of the two endpoints' answers: whole objects, stream chunks and server-sent-event frames.

Only text, counts and names come in; nothing here waits or knows the engine. The field order is OpenAI's, so
that two answers can be compared by eye.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kvis_runtime.serve.generation import Delta, Usage

_COMPACT: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":")
)  # one per token would cost as much
DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class FinishedChoice:
    """The whole text of a choice."""

    index: int
    text: str
    finish_reason: str


class Shape(Protocol):
    """How one endpoint words its answer."""

    def opening(self, index: int) -> dict[str, Any] | None:
        """Return the choice object that precedes the first text of a stream, if the endpoint has one."""

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """Return the choice object of a stream chunk."""

    def whole(self, choice: FinishedChoice) -> dict[str, Any]:
        """Return the choice object of an answer that is not streamed."""

    def envelope(self, *, streamed: bool) -> dict[str, Any]:
        """Return the fields around the choices."""


@dataclass(frozen=True, slots=True)
class CompletionShape:
    """/v1/completions."""

    call_id: str
    created: int
    model: str

    def opening(self, index: int) -> dict[str, Any] | None:
        """Completions start with text."""
        return None

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """Return a piece of text."""
        return {
            "index": delta.index,
            "text": delta.text,
            "logprobs": None,
            "finish_reason": delta.finish_reason,
        }

    def whole(self, choice: FinishedChoice) -> dict[str, Any]:
        """Return the text."""
        return {
            "index": choice.index,
            "text": choice.text,
            "logprobs": None,
            "finish_reason": choice.finish_reason,
        }

    def envelope(self, *, streamed: bool) -> dict[str, Any]:
        """Completions name the same object in both cases."""
        return {"id": self.call_id, "object": "text_completion", "created": self.created, "model": self.model}


@dataclass(frozen=True, slots=True)
class ChatShape:
    """/v1/chat/completions."""

    call_id: str
    created: int
    model: str

    def opening(self, index: int) -> dict[str, Any] | None:
        """Return the role, which a chat stream sends first."""
        return _chat_choice(index, "delta", {"role": "assistant", "content": ""}, None)

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """Return a piece of the message."""
        content = {"content": delta.text} if delta.text or delta.finish_reason is None else {}
        return _chat_choice(delta.index, "delta", content, delta.finish_reason)

    def whole(self, choice: FinishedChoice) -> dict[str, Any]:
        """Return the message."""
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        return _chat_choice(choice.index, "message", message, choice.finish_reason)

    def envelope(self, *, streamed: bool) -> dict[str, Any]:
        """A stream of a chat has a name of its own."""
        kind = "chat.completion.chunk" if streamed else "chat.completion"
        return {"id": self.call_id, "object": kind, "created": self.created, "model": self.model}


def encode(content: Mapping[str, Any]) -> bytes:
    """Return compact JSON."""
    return _COMPACT.encode(content).encode()


def frame(content: Mapping[str, Any]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + encode(content) + b"\n\n"


def chunk_frame(shape: Shape, choice: Mapping[str, Any], *, usage_follows: bool) -> bytes:
    """Return the event of one chunk; when a usage chunk follows, the others say `usage: null`."""
    content = {**shape.envelope(streamed=True), "choices": [choice]}
    return frame({**content, "usage": None} if usage_follows else content)


def usage_frame(shape: Shape, usage: Usage) -> bytes:
    """Return the event with the token counts: no choices."""
    return frame({**shape.envelope(streamed=True), "choices": [], "usage": usage_object(usage)})


def whole_answer(shape: Shape, choices: Sequence[FinishedChoice], usage: Usage) -> dict[str, Any]:
    """Return the body of an answer that is not streamed."""
    body = shape.envelope(streamed=False)
    return {**body, "choices": [shape.whole(choice) for choice in choices], "usage": usage_object(usage)}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return token counts in OpenAI's words; cached tokens are those found in the prefix cache."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _chat_choice(
    index: int, key: str, message: Mapping[str, Any], finish_reason: str | None
) -> dict[str, Any]:
    return {"index": index, key: message, "logprobs": None, "finish_reason": finish_reason}

"""Request bodies of the OpenAI API as far as this engine serves them; pydantic at the edge.

A field of OpenAI's or vLLM's API that the engine lacks is accepted at the value that asks for nothing
(null, an empty list, zero penalty) and refused otherwise with a 400 that names it; so is a field nobody
knows. Types are strict: "5" is not 5.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kvis_runtime.serve.errors import ApiError, bad_request

MAX_CHOICES: Final = 8  # per prompt
MAX_PROMPTS: Final = 16  # per request
MAX_STOPS: Final = 16
MAX_STOP_CHARACTERS: Final = 256
DEFAULT_COMPLETION_TOKENS: Final = 16  # OpenAI's default for /v1/completions

NOT_SERVED: Final[Mapping[str, tuple[Any, ...]]] = {
    "audio": (None,),
    "best_of": (None, 1),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "function_call": (None, "none"),
    "functions": (None, []),
    "guided_choice": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "modalities": (None, ["text"]),
    "prediction": (None,),
    "presence_penalty": (None, 0),
    "prompt_logprobs": (None,),
    "reasoning_effort": (None, "none"),
    "repetition_penalty": (None, 1),
    "response_format": (None, {"type": "text"}),
    "skip_special_tokens": (None, True),
    "suffix": (None, ""),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "top_k": (None, 0, -1),
    "top_logprobs": (None, 0),
    "verbosity": (None,),
    "web_search_options": (None,),
}
"""Field -> the values that ask for nothing; only those are accepted."""

ASKS_NOTHING: Final = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
"""Fields that describe the caller or concern the hosted service only: accepted and not used."""

WANTED: Final[Mapping[str, str]] = {
    "prompt": "a string, a list of strings, a list of token ids or a list of such lists",
    "stop": f"a string or a list of at most {MAX_STOPS} strings of 1 to {MAX_STOP_CHARACTERS} characters",
    "content": 'a string or a list of parts {"type": "text", "text": ...}',
}
"""What would be right, for fields whose union of types makes a long message."""

MESSAGE_NOT_SERVED: Final[Mapping[str, tuple[Any, ...]]] = {
    "annotations": (None, []),
    "audio": (None,),
    "function_call": (None,),
    "reasoning": (None,),
    "reasoning_content": (None,),
    "refusal": (None,),
    "tool_calls": (None, []),
}
"""Fields that clients send back with an assistant's message; empty in everything this server answers."""

STRICT: Final = ConfigDict(extra="forbid", strict=True, frozen=True)

Stop = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARACTERS)]
TokenId = Annotated[int, Field(ge=0)]
Body = TypeVar("Body", bound=BaseModel)


def _without_neutral(raw: Any, not_served: Mapping[str, tuple[Any, ...]], ignored: frozenset[str]) -> Any:
    """Drop fields at a value that asks for nothing; ValueError for another value of such a field."""
    if not isinstance(raw, dict):
        return raw
    kept: dict[str, Any] = {}
    for name, value in raw.items():
        if name in ignored:
            continue
        if name not in not_served:
            kept[name] = value
        elif value not in not_served[name]:
            allowed = " or ".join(repr(neutral) for neutral in not_served[name])
            raise ValueError(f"{name}: this model server does not support it; leave it out or send {allowed}")
    return kept


class StreamOptions(BaseModel):
    """`include_usage` asks for a last chunk with the token counts."""

    model_config = STRICT

    include_usage: bool = False


class SamplingFields(BaseModel):
    """What both endpoints share."""

    model_config = STRICT

    model: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    ignore_eos: bool = False  # vLLM's: load generators ask for an exact length

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_served(cls, raw: Any) -> Any:
        return _without_neutral(raw, NOT_SERVED, ASKS_NOTHING)

    @model_validator(mode="after")
    def _options_need_a_stream(self) -> "SamplingFields":
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options: only allowed together with stream: true")
        return self

    def stops(self) -> tuple[str, ...]:
        """Return the stop strings as a tuple."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def wants_usage_chunk(self) -> bool:
        """Return whether a stream ends with a chunk of token counts."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(SamplingFields):
    """POST /v1/completions."""

    prompt: (
        str
        | Annotated[list[TokenId], Field(min_length=1)]
        | Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS)]
        | Annotated[
            list[Annotated[list[TokenId], Field(min_length=1)]], Field(min_length=1, max_length=MAX_PROMPTS)
        ]
    )

    def prompts(self) -> list[str | list[int]]:
        """Return the prompts one by one."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [[token for token in self.prompt if isinstance(token, int)]]
        return [prompt for prompt in self.prompt if not isinstance(prompt, int)]


class TextPart(BaseModel):
    """One part of a message's content; the engine reads text only."""

    model_config = STRICT

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = STRICT

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_served(cls, raw: Any) -> Any:
        return _without_neutral(raw, MESSAGE_NOT_SERVED, frozenset())

    def text(self) -> str:
        """Return the content as one string; parts become lines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


class ChatBody(SamplingFields):
    """POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    add_generation_prompt: bool = True

    def output_limit(self) -> int | None:
        """Return the asked number of output tokens; None = as many as the context holds."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


def read_body(kind: type[Body], raw: bytes) -> Body:
    """Parse a request body; ApiError 400 that names the field at fault, or says where the JSON breaks."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise _explain(error) from error


def _explain(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_input=False)[0]
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return bad_request(
            f"The body is not valid JSON: {message.removeprefix('Invalid JSON: ')}", code="invalid_json"
        )
    path = [str(step) for step in first["loc"]]
    if not path:
        name, _, _ = message.partition(":")
        return bad_request(message, param=name if name.isidentifier() else None)
    union = next((name for name in path if name in WANTED), None)
    if union is not None:
        where = ".".join(path[: path.index(union) + 1])
        return bad_request(f"{where}: must be {WANTED[union]}", param=where)
    where = ".".join(path)
    if first["type"] == "extra_forbidden":
        return bad_request(f"{where}: unknown field; leave it out", param=where)
    return bad_request(f"{where}: {message[:1].lower()}{message[1:]}", param=where)

"""What goes into the engine and what comes out: requests, sampling settings, outputs, counters.

Token ids only; text, templates and stop strings belong to the server. `Sequence` is the engine's own
mutable record of one request; nothing outside `engine` and `model` touches it.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class RequestError(ValueError):
    """A request that cannot be served; `field` is the parameter, the message says what would work."""

    def __init__(self, field_name: str, message: str) -> None:
        super().__init__(message)
        self.field = field_name


class FinishedReason(StrEnum):
    """Why a request ended, in the words of the OpenAI API."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen. `temperature=0` is greedy. RequestError for a value out of range."""

    max_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    """The same seed and prompt give the same tokens, whatever else runs in the batch."""
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise RequestError("max_tokens", f"max_tokens is {self.max_tokens}; it must be at least 1")
        if not 0.0 <= self.temperature <= 2.0:
            raise RequestError("temperature", f"temperature is {self.temperature}; it must be from 0 to 2")
        if not 0.0 < self.top_p <= 1.0:
            raise RequestError("top_p", f"top_p is {self.top_p}; it must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue. `arrival` is on the engine's monotonic clock, None = when it is added."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    params: SamplingParams = SamplingParams()
    arrival: float | None = None
    cache_salt: str = ""
    """Requests share cached prefixes only with requests of the same salt."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Moments of a request on the engine's monotonic clock, in seconds; None = not reached."""

    arrival: float
    first_scheduled: float | None
    first_token: float | None
    last_token: float | None


@dataclass(frozen=True, slots=True)
class Output:
    """What one step produced for one request."""

    request_id: str
    new_token_ids: tuple[int, ...]
    finished_reason: FinishedReason | None
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens found in the prefix cache when the request was first scheduled."""
    generated_tokens: int
    preemptions: int
    timings: Timings


@dataclass(slots=True)
class Counters:
    """Totals since the start. Token counts of prompts exclude what is recomputed after a preemption."""

    prefix_queries: int = 0
    prefix_hits: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    computed_tokens: int = 0
    """Every token that went through the model, recomputed ones included."""
    preemptions: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot of the engine. `referenced + cached + free == total` blocks."""

    running: int
    waiting: int
    blocks_referenced: int
    blocks_cached: int
    blocks_free: int
    blocks_total: int
    block_size: int
    max_num_seqs: int
    cap: int
    max_model_len: int
    kv_capacity_tokens: int
    last_step_tokens: int
    """Tokens computed in the last step."""
    prefix_queries: int
    prefix_hits: int
    prompt_tokens: int
    generation_tokens: int
    computed_tokens: int
    preemptions: int
    steps: int


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the engine: its tokens so far, and the blocks that hold the KV of the computed ones."""

    request: Request
    tokens: list[int]
    max_length: int
    stop_ids: frozenset[int]
    arrival: float
    random: Random
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    """Chain hashes of the leading full blocks, as far as computed; survives a preemption."""
    computed: int = 0
    published: int = 0
    """Leading blocks already offered to the prefix cache."""
    cached_tokens: int | None = None
    preemptions: int = 0
    first_scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.request.prompt_token_ids)

    @property
    def pending(self) -> int:
        """Tokens whose KV is not computed yet; 1 in steady decode."""
        return len(self.tokens) - self.computed

    def output(self, new: tuple[int, ...], reason: FinishedReason | None) -> Output:
        """The output of the current step."""
        return Output(
            request_id=self.request.request_id,
            new_token_ids=new,
            finished_reason=reason,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens or 0,
            generated_tokens=len(self.tokens) - self.prompt_tokens,
            preemptions=self.preemptions,
            timings=Timings(self.arrival, self.first_scheduled, self.first_token, self.last_token),
        )


def new_sequence(request: Request, *, max_model_len: int, eos_ids: frozenset[int], now: float) -> Sequence:
    """The engine's record of a new request; RequestError when its prompt cannot be served."""
    length = len(request.prompt_token_ids)
    if length == 0:
        raise RequestError("prompt", "the prompt is empty; it must have at least 1 token")
    if length >= max_model_len:
        raise RequestError(
            "prompt",
            f"the prompt has {length} tokens and the context holds {max_model_len}, output included;"
            f" at most {max_model_len - 1} prompt tokens would work",
        )
    params = request.params
    return Sequence(
        request=request,
        tokens=list(request.prompt_token_ids),
        max_length=min(length + params.max_tokens, max_model_len),
        stop_ids=params.stop_token_ids if params.ignore_eos else params.stop_token_ids | eos_ids,
        arrival=now if request.arrival is None else request.arrival,
        random=Random(params.seed),
    )

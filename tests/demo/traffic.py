"""The trace rows turned into requests: same lengths, same shared prefixes, tokens made up from the block ids.

The trace holds no text, so a block id seeds its own 512 token ids: two rows share a prefix exactly where
the trace says that they do. Arrivals are Poisson at the phase's rate, from a seed: two runs send the same.
"""

import json
import pathlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

TRACE = pathlib.Path(__file__).parent / "trace" / "mooncake_conversation_short.jsonl"
BLOCK_TOKENS = 512  # of the trace
FIRST_TOKEN, LAST_TOKEN = 1000, 40_000  # plain text tokens of the bundled model's vocabulary


@dataclass(frozen=True, slots=True)
class Prompt:
    tokens: tuple[int, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Phase:
    """One stretch of load: `rate` requests a second for `seconds`, each for `answer_tokens` or what the trace says."""

    name: str
    rate: float
    seconds: float
    answer_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    at: float  # seconds from the start of the phase
    prompt: Prompt


def read_prompts(path: pathlib.Path = TRACE) -> list[Prompt]:
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return [_prompt(row["input_length"], row["output_length"], row["hash_ids"]) for row in rows]


def _prompt(input_length: int, output_length: int, hash_ids: list[int]) -> Prompt:
    tokens = [token for block in hash_ids for token in _block_tokens(block)]
    return Prompt(tokens=tuple(tokens[:input_length]), max_tokens=output_length)


def _block_tokens(block: int) -> list[int]:
    return random.Random(block).choices(range(FIRST_TOKEN, LAST_TOKEN), k=BLOCK_TOKENS)


def arrivals(phase: Phase, prompts: Iterator[Prompt], *, seed: int) -> Iterator[Arrival]:
    """Poisson arrivals of the next prompts in trace order, until the phase ends."""
    chance = random.Random(seed)
    at = chance.expovariate(phase.rate)
    while at < phase.seconds:
        prompt = next(prompts)
        yield Arrival(
            at, prompt if phase.answer_tokens is None else replace(prompt, max_tokens=phase.answer_tokens)
        )
        at += chance.expovariate(phase.rate)

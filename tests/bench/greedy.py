"""Token-by-token comparison of our greedy output with transformers' `generate`, for the test and the bench.

A different token counts as a mismatch unless the reference's two highest logits lay within NEAR_TIE
there: such a place is reported as a near tie, and nothing after it can be compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from kvis_runtime.engine.request import Request, SamplingParams
from kvis_runtime.model.llm import Engine

NEAR_TIE = 1e-3
NEW_TOKENS = 32

_SYSTEM = (
    "You are a careful assistant. Answer in one short sentence, in plain words, and never invent facts. "
)
QUESTIONS = (
    "What is the capital of France?",
    "Name three primary colours.",
    "Why is the sky blue?",
    "Translate 'good morning' into Spanish.",
    "What is 17 plus 25?",
    "Who wrote Romeo and Juliet?",
    "List the days of the week in order, starting on Monday.",
    "What does a thermometer measure?",
    "Explain photosynthesis to a child.",
    "Which planet is the largest?",
)
TEXTS = (
    "Once upon a time",
    "The quick brown fox",
    "def fibonacci(n):\n    ",
    "In the year 1969, the first human",
    "Water boils at 100 degrees Celsius at sea level, but on a high mountain",
    "The recipe needs two eggs, a cup of flour, and",
    "1, 1, 2, 3, 5, 8,",
    "Dear Sir or Madam,\n\nI am writing to",
    _SYSTEM * 8 + "The weather today",
    _SYSTEM * 20 + "The library opens at",
)


@dataclass(frozen=True, slots=True)
class Reference:
    """transformers' greedy continuation of one prompt, and the gap of its two best logits each time."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    gaps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token where ours differs."""

    prompt_index: int
    position: int
    expected: int | None
    got: int | None
    gap: float

    @property
    def is_near_tie(self) -> bool:
        return self.gap <= NEAR_TIE


def references(folder: Path) -> list[Reference]:
    """Reference continuations of 20 prompts: 10 chat questions and 10 texts of 3 to 480 tokens."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompts = [_chat(tokenizer, question) for question in QUESTIONS]
    prompts += [tuple(tokenizer(text)["input_ids"]) for text in TEXTS]
    return [_reference(model, prompt) for prompt in prompts]


def _chat(tokenizer: AutoTokenizer, question: str) -> tuple[int, ...]:
    messages = [{"role": "system", "content": _SYSTEM * 3}, {"role": "user", "content": question}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def _reference(model: AutoModelForCausalLM, prompt: tuple[int, ...]) -> Reference:
    inputs = torch.tensor([prompt])
    result = model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        output_logits=True,
        return_dict_in_generate=True,
    )
    best = [torch.topk(logits[0].float(), 2).values for logits in result.logits]
    tokens = tuple(result.sequences[0, len(prompt) :].tolist())
    return Reference(prompt, tokens, tuple(float(pair[0] - pair[1]) for pair in best))


def continue_all(
    engine: Engine, prompts: Iterable[tuple[int, ...]], *, salted: bool = False
) -> list[tuple[int, ...]]:
    """Our greedy continuations, all prompts queued at once; `salted` ones share no cached prefix."""
    params = SamplingParams(max_tokens=NEW_TOKENS)
    tokens: dict[str, list[int]] = {}
    for index, prompt in enumerate(prompts):
        engine.add(Request(str(index), prompt, params, cache_salt=str(index) if salted else ""))
        tokens[str(index)] = []
    while engine.has_work():
        for output in engine.step():
            tokens[output.request_id].extend(output.new_token_ids)
    return [tuple(generated) for generated in tokens.values()]


def differences(expected: list[Reference], got: list[tuple[int, ...]]) -> list[Difference]:
    """The first difference of each prompt that has one."""
    found = []
    for index, (reference, tokens) in enumerate(zip(expected, got, strict=True)):
        if reference.tokens == tokens:
            continue
        length = min(len(reference.tokens), len(tokens))
        at = next((i for i in range(length) if reference.tokens[i] != tokens[i]), length)
        found.append(
            Difference(
                prompt_index=index,
                position=at,
                expected=reference.tokens[at] if at < len(reference.tokens) else None,
                got=tokens[at] if at < len(tokens) else None,
                gap=reference.gaps[at] if at < len(reference.gaps) else float("inf"),
            )
        )
    return found

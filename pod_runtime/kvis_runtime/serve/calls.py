"""Turns a checked request body into a call: prompts to token ids, fields to engine requests.

Here the model's own limits are checked: its name, its context length, its vocabulary. Long prompts are
encoded in a worker thread, because a megabyte of text would hold up every other stream.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvis_runtime.engine.request import Request, SamplingParams
from kvis_runtime.serve.chat_template import ChatTemplateError
from kvis_runtime.serve.errors import ApiError, bad_request, too_long
from kvis_runtime.serve.generation import ChoicePlan
from kvis_runtime.serve.schemas import DEFAULT_COMPLETION_TOKENS, ChatBody, CompletionBody, SamplingFields
from kvis_runtime.serve.tokens import TextCodec

INLINE_CHARACTERS: Final = 8192  # about 2 ms of encoding; longer prompts go to a worker thread
SEED_RANGE: Final = 2**64


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What clients may ask for: the model's public name and its context in tokens."""

    name: str
    context: int


@dataclass(frozen=True, slots=True)
class _Call:
    call_id: str
    arrived_at: float
    body: SamplingFields


def check_model(model: ServedModel, asked: str | None) -> None:
    """Raise 404 when another model was asked for."""
    if asked is not None and asked != model.name:
        message = f"The model {asked!r} does not exist here; this server has {model.name!r}."
        raise ApiError(404, message, param="model", code="model_not_found")


async def plan_completion(
    body: CompletionBody, model: ServedModel, codec: TextCodec, arrived_at: float
) -> list[ChoicePlan]:
    """Return the choices of a completions call: n for each prompt, in the order of the prompts."""
    prompts = [await _completion_ids(prompt, codec) for prompt in body.prompts()]
    asked = DEFAULT_COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    for ids in prompts:
        if not ids:
            raise bad_request("prompt: holds no token; send at least one character", param="prompt")
        _check_length(ids, asked if body.max_tokens is not None else None, model, param="prompt")
    limits = [min(asked, model.context - len(ids)) for ids in prompts]
    return _plans(_Call(f"cmpl-{uuid.uuid4().hex}", arrived_at, body), prompts, limits)


async def plan_chat(
    body: ChatBody, model: ServedModel, codec: TextCodec, arrived_at: float
) -> list[ChoicePlan]:
    """Return the choices of a chat call. Without a limit the answer may fill the context."""
    if not codec.has_chat_template:
        raise bad_request("This model has no chat template; use /v1/completions.", param="messages")
    ids = await _chat_ids(body, codec)
    asked = body.output_limit()
    _check_length(ids, asked, model, param="messages")
    limit = asked or model.context - len(ids)
    return _plans(_Call(f"chatcmpl-{uuid.uuid4().hex}", arrived_at, body), [ids], [limit])


async def _completion_ids(prompt: str | list[int], codec: TextCodec) -> list[int]:
    if isinstance(prompt, str):
        if len(prompt) <= INLINE_CHARACTERS:
            return codec.encode_text(prompt)
        return await asyncio.to_thread(codec.encode_text, prompt)
    highest = codec.vocabulary_size - 1
    if max(prompt) > highest:
        raise bad_request(
            f"prompt: token id {max(prompt)} is not in the vocabulary; the highest is {highest}",
            param="prompt",
        )
    return prompt


async def _chat_ids(body: ChatBody, codec: TextCodec) -> list[int]:
    # Templates know "system"; "developer" is OpenAI's newer word for it.
    turns = [("system" if m.role == "developer" else m.role, m.text()) for m in body.messages]

    def encode() -> list[int]:
        return codec.encode_chat(turns, add_generation_prompt=body.add_generation_prompt)

    try:
        if sum(len(content) for _, content in turns) <= INLINE_CHARACTERS:
            return encode()
        return await asyncio.to_thread(encode)
    except ChatTemplateError as error:
        raise bad_request(f"messages: {error}", param="messages") from error


def _check_length(ids: Sequence[int], asked: int | None, model: ServedModel, *, param: str) -> None:
    if len(ids) + (asked or 1) > model.context:
        raise too_long(prompt_tokens=len(ids), max_tokens=asked, context=model.context, param=param)


def _plans(call: _Call, prompts: Sequence[list[int]], limits: Sequence[int]) -> list[ChoicePlan]:
    choices = call.body.n or 1
    plans: list[ChoicePlan] = []
    for number, (ids, limit) in enumerate(zip(prompts, limits, strict=True)):
        for sample in range(choices):
            index = number * choices + sample
            params = _sampling(call.body, limit, sample)
            request = Request(f"{call.call_id}-{index}", tuple(ids), params, arrival=call.arrived_at)
            plans.append(ChoicePlan(index, number, request, call.body.stops()))
    return plans


def _sampling(body: SamplingFields, limit: int, sample: int) -> SamplingParams:
    """Return the engine's parameters; the samples of one prompt get seeds of their own."""
    seed = None if body.seed is None else (body.seed + sample) % SEED_RANGE
    return SamplingParams(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=seed,
        max_tokens=limit,
        ignore_eos=body.ignore_eos,
    )

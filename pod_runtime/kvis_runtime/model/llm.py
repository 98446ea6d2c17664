"""The torch engine: scheduler, model and sampler put together, one step at a time.

Not thread-safe: one thread adds, steps and aborts. It never blocks and never sleeps; whoever drives it
decides when to call `step`. No tokenizer here: token ids in, token ids out.
"""

import os
from time import monotonic

import torch

from kvis_runtime.engine.config import EngineConfig
from kvis_runtime.engine.limits import Limits, kv_layout, resolve_limits
from kvis_runtime.engine.request import (
    EngineStats,
    FinishedReason,
    Output,
    Request,
    RequestError,
    Sequence,
    new_sequence,
)
from kvis_runtime.engine.scheduler import Chunk, Scheduler
from kvis_runtime.kv.store import KVStore
from kvis_runtime.model.attention import execution_order, plan_attention
from kvis_runtime.model.llama import Batch, LlamaModel
from kvis_runtime.model.loader import ModelFacts, read_facts, read_weights
from kvis_runtime.model.sampler import sample


class Engine:
    """Serves token requests from one model. Build it with `load`."""

    def __init__(self, model: LlamaModel, store: KVStore, facts: ModelFacts, limits: Limits) -> None:
        self._model = model
        self._store = store
        self._facts = facts
        self._limits = limits
        self._scheduler = Scheduler(limits)
        self._last_step_tokens = 0

    @classmethod
    def load(cls, config: EngineConfig) -> "Engine":
        """Read the model and allocate its cache; ConfigError or ModelConfigError say what cannot work."""
        torch.set_num_threads(config.threads or len(os.sched_getaffinity(0)))
        facts = read_facts(config.model)
        limits = resolve_limits(config, facts.shape)
        dtype = getattr(torch, config.dtype)
        with torch.inference_mode():
            weights = read_weights(config.model, facts, dtype)
            store = KVStore(kv_layout(config, facts.shape), limits.num_blocks, compute=dtype)
            model = LlamaModel(facts, weights, store, max_model_len=limits.max_model_len)
        return cls(model, store, facts, limits)

    @property
    def limits(self) -> Limits:
        """The resolved limits, for example the longest sequence."""
        return self._limits

    @property
    def facts(self) -> ModelFacts:
        """The model's shape and the tokens that end a sequence."""
        return self._facts

    def add(self, request: Request) -> None:
        """Queue a request; RequestError when its prompt cannot be served."""
        vocabulary = self._facts.shape.vocabulary
        if any(not 0 <= token < vocabulary for token in request.prompt_token_ids):
            raise RequestError("prompt", f"the prompt has a token id outside 0 to {vocabulary - 1}")
        self._scheduler.add(
            new_sequence(
                request,
                max_model_len=self._limits.max_model_len,
                eos_ids=self._facts.eos_token_ids,
                now=monotonic(),
            )
        )

    def abort(self, request_id: str) -> Output | None:
        """End a request now and free its blocks; its final output, or None when it is not here any more."""
        sequence = self._scheduler.abort(request_id)
        return None if sequence is None else sequence.output((), FinishedReason.ABORT)

    def has_work(self) -> bool:
        """Whether any request is running or waiting."""
        return bool(self._scheduler.running or self._scheduler.waiting)

    def set_cap(self, cap: int) -> int:
        """Change how many sequences may run, within 1 and the ceiling; returns what holds now."""
        return self._scheduler.set_cap(cap)

    def reset_prefix_cache(self) -> None:
        """Forget every cached prefix; running requests go on."""
        self._scheduler.reset_prefix_cache()

    def step(self) -> list[Output]:
        """Compute one batch; the outputs of the requests that got a token."""
        chunks = execution_order(self._scheduler.schedule(now=monotonic()))
        if not chunks:
            return []
        self._last_step_tokens = sum(chunk.count for chunk in chunks)
        with torch.inference_mode():
            sampling, logits = self._forward(chunks)
            tokens = sample(logits, sampling)
        return self._scheduler.commit(chunks, tokens, now=monotonic())

    def stats(self) -> EngineStats:
        """The engine's state and counters now."""
        scheduler, counters = self._scheduler, self._scheduler.counters
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            blocks_referenced=scheduler.pool.referenced,
            blocks_cached=scheduler.pool.cached,
            blocks_free=scheduler.pool.free,
            blocks_total=scheduler.pool.total,
            block_size=self._limits.block_size,
            max_num_seqs=self._limits.max_num_seqs,
            cap=scheduler.cap,
            max_model_len=self._limits.max_model_len,
            kv_capacity_tokens=self._limits.kv_capacity_tokens,
            last_step_tokens=self._last_step_tokens,
            prefix_queries=counters.prefix_queries,
            prefix_hits=counters.prefix_hits,
            prompt_tokens=counters.prompt_tokens,
            generation_tokens=counters.generation_tokens,
            computed_tokens=counters.computed_tokens,
            preemptions=counters.preemptions,
            steps=counters.steps,
        )

    def _forward(self, chunks: list[Chunk]) -> tuple[list[Sequence], torch.Tensor]:
        tokens: list[int] = []
        positions: list[int] = []
        sampled: list[int] = []
        sampling: list[Sequence] = []
        for chunk in chunks:
            tokens += chunk.sequence.tokens[chunk.start : chunk.end]
            positions += range(chunk.start, chunk.end)
            if chunk.samples:
                sampled.append(len(tokens) - 1)
                sampling.append(chunk.sequence)
        batch = Batch(
            tokens=torch.tensor(tokens),
            positions=torch.tensor(positions),
            sampled=torch.tensor(sampled, dtype=torch.long),
            attention=plan_attention(chunks, self._store),
        )
        return sampling, self._model.forward(batch)

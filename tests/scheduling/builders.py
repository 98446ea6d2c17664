"""Builders for engine tests: limits, sequences and a scheduler loop without a model."""

from kvis_runtime.engine.limits import Limits
from kvis_runtime.engine.request import Request, SamplingParams, new_sequence
from kvis_runtime.engine.scheduler import Scheduler


def some_limits(**changes) -> Limits:
    defaults = {
        "block_size": 4,
        "num_blocks": 64,
        "max_model_len": 64,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 32,
        "prefix_caching": True,
    }
    return Limits(**(defaults | changes))


def a_sequence(name="a", *, prompt=8, output=4, salt="", tokens=None, limits=None, stop=frozenset()):
    ids = tuple(range(prompt)) if tokens is None else tuple(tokens)
    request = Request(name, ids, SamplingParams(max_tokens=output, stop_token_ids=stop), cache_salt=salt)
    limit = (limits or some_limits()).max_model_len
    return new_sequence(request, max_model_len=limit, eos_ids=frozenset(), now=0.0)


def one_step(scheduler: Scheduler, *, token=1000):
    """Schedule and commit one step that samples `token` everywhere; the chunks and the outputs."""
    chunks = scheduler.schedule(now=0.0)
    sampled = [token for chunk in chunks if chunk.samples]
    return chunks, scheduler.commit(chunks, sampled, now=0.0)


def run_to_end(scheduler: Scheduler, *, most_steps=10_000):
    """All outputs until nothing is left."""
    outputs = []
    for _ in range(most_steps):
        if not (scheduler.running or scheduler.waiting):
            return outputs
        outputs += one_step(scheduler)[1]
    raise AssertionError(f"not finished after {most_steps} steps")

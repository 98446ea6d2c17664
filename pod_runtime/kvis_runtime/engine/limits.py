"""The engine's limits once the model is known: blocks, longest sequence, batch.

Pure arithmetic from settings and shape. The invariant that everything later leans on: the pool always
holds one sequence of `max_model_len`, so preemption can always make room for the oldest sequence.
"""

from dataclasses import dataclass

from kvis_kv.dtypes import KVDtype, resolve
from kvis_kv.layout import KVLayout
from kvis_kv.models import ModelShape
from kvis_runtime.engine.config import ConfigError, EngineConfig


@dataclass(frozen=True, slots=True)
class Limits:
    """Resolved limits. Lengths are tokens."""

    block_size: int
    num_blocks: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    prefix_caching: bool

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens that the pool holds, all sequences together."""
        return self.num_blocks * self.block_size

    def blocks_for(self, tokens: int) -> int:
        """Blocks that a sequence of `tokens` holds."""
        return -(-tokens // self.block_size)


def kv_layout(config: EngineConfig, shape: ModelShape) -> KVLayout:
    """How the model's cache is cut; `auto` stores KV in the dtype of the weights."""
    dtype = resolve(config.kv_cache_dtype, weights=KVDtype(config.dtype))
    return KVLayout(shape, dtype, config.block_size)


def resolve_limits(config: EngineConfig, shape: ModelShape) -> Limits:
    """Limits for this model. ConfigError says which length would fit and which memory would be needed."""
    layout = kv_layout(config, shape)
    longest = shape.context if config.max_model_len is None else config.max_model_len
    if longest > shape.context:
        raise ConfigError(
            "max_model_len", f"{longest} exceeds the model's context; {shape.context} would work"
        )
    fits = layout.longest_in(config.kv_cache_memory_bytes)
    if fits < longest:
        remedy = f"max_model_len={fits} would fit" if fits > 1 else "no sequence fits"
        raise ConfigError(
            "kv_cache_memory_bytes",
            f"{config.kv_cache_memory_bytes} cannot hold one sequence of {longest} tokens: {remedy},"
            f" or give {layout.memory_for(longest)} bytes",
        )
    return Limits(
        block_size=config.block_size,
        num_blocks=layout.blocks_in(config.kv_cache_memory_bytes),
        max_model_len=longest,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        prefix_caching=config.enable_prefix_caching,
    )

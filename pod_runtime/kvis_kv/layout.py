"""KV-cache arithmetic: bytes per token and block, what fits into memory, what a sequence needs.

The operator sizes pods with it and the runtime allocates by it, so a plan and a pool never disagree.
Memory is counted in whole blocks: a sequence holds ceil(length / block_size) of them. Sizes are bytes and
tokens.
"""

from dataclasses import dataclass
from typing import Final

from kvis_kv.dtypes import KVDtype, head_bytes
from kvis_kv.models import ModelShape

BLOCK_SIZES: Final = (8, 16, 32, 64, 128, 256)
"""Tokens per block that the torch engine can use."""
DEFAULT_BLOCK_SIZE: Final = 16


def nearest_block_size(wanted: int) -> int:
    """The usable block size closest to `wanted`, the smaller one of two equally close."""
    return min(BLOCK_SIZES, key=lambda size: (abs(size - wanted), size))


def bytes_per_token(shape: ModelShape, dtype: KVDtype) -> int:
    """KV bytes of one token over all layers: 2 x layers x kv_heads x bytes of one head.

    | model | dtype | bytes |
    | Llama-3-70B (80 layers, 8 KV heads of 128) | bfloat16 | 327,680 |
    | SmolLM2-135M (30 layers, 3 KV heads of 64) | bfloat16 | 23,040 |
    """
    return 2 * shape.layers * shape.kv_heads * head_bytes(dtype, shape.head_dim)


@dataclass(frozen=True, slots=True)
class KVLayout:
    """How one model's KV cache is cut into blocks of `block_size` tokens."""

    shape: ModelShape
    dtype: KVDtype
    block_size: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block over all layers."""
        return self.block_size * bytes_per_token(self.shape, self.dtype)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that a sequence of `tokens` holds."""
        return -(-tokens // self.block_size)

    def blocks_in(self, memory_bytes: int) -> int:
        """Whole blocks that fit."""
        return max(memory_bytes, 0) // self.block_bytes

    def tokens_in(self, memory_bytes: int) -> int:
        """Tokens that fit, all sequences together."""
        return self.blocks_in(memory_bytes) * self.block_size

    def memory_for(self, tokens: int, *, sequences: int = 1) -> int:
        """Bytes that `sequences` sequences of `tokens` each need, nothing shared."""
        return sequences * self.blocks_for(tokens) * self.block_bytes

    def longest_in(self, memory_bytes: int) -> int:
        """Tokens of the longest single sequence that fits, never more than the model's context; 0 = none."""
        return min(self.tokens_in(memory_bytes), self.shape.context)

    def max_concurrency(self, memory_bytes: int, tokens: int) -> float:
        """Sequences of `tokens` each that fit at once, as a fraction (vLLM logs the same figure)."""
        return self.blocks_in(memory_bytes) / self.blocks_for(tokens)

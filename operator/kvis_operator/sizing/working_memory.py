"""Memory of a replica beside weights and KV cache: the process itself and one step's activations."""

from typing import Final

from kvis_kv.models import ModelShape

_MIB: Final = 2**20
# Python, torch with its thread pools, tokenizer: 300 MiB of its own and 225 MiB of mapped libraries (torch
# 2.13, x86-64), rounded up for what the allocator keeps.
PROCESS_BYTES: Final = 640 * _MIB
_ACTIVATION_BYTES: Final = 4  # activations are float32 whatever the weights are


def working_bytes(shape: ModelShape, *, max_num_batched_tokens: int, max_num_seqs: int) -> int:
    """Upper estimate: residual and attention rows, the gated MLP, and the logits of every sequence."""
    row = 4 * shape.hidden + 2 * shape.heads * shape.head_dim + 3 * shape.intermediate
    logits = 2 * max_num_seqs * shape.vocabulary
    return PROCESS_BYTES + _ACTIVATION_BYTES * (max_num_batched_tokens * row + logits)

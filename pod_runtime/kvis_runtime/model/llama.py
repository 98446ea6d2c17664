"""The forward pass of Llama-family decoders: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

All tokens of a step, of all sequences, go through each matrix as one batch of rows; only attention looks
at which row belongs to whom. Written for CPUs: fused projections, packed matrices, in-place updates, no
temporary that is not needed.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import silu

from kvis_runtime.kv.store import KVStore
from kvis_runtime.model.attention import AttentionPlan, PagedAttention
from kvis_runtime.model.loader import ModelFacts, Weights


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step: token ids and positions [rows], and the rows whose logits are wanted."""

    tokens: torch.Tensor
    positions: torch.Tensor
    sampled: torch.Tensor
    attention: AttentionPlan


class LlamaModel:
    """Weights and rotary table of one model, computing over one KV store."""

    def __init__(self, facts: ModelFacts, weights: Weights, store: KVStore, *, max_model_len: int) -> None:
        self._shape = facts.shape
        self._weights = weights
        self._dtype = store.compute_dtype
        self._attention = PagedAttention(facts.shape, store)
        self._rotations = _rotations(facts, max_model_len)
        self._rotated = (facts.shape.heads + facts.shape.kv_heads) * facts.shape.head_dim

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits [sampled rows, vocabulary] in the dtype of the weights."""
        shape = self._shape
        x = self._weights.embedding[batch.tokens].to(self._dtype)
        rotation = self._rotations[batch.positions][:, None, :]
        attended = x.new_empty(x.shape[0], shape.heads * shape.head_dim)
        for index, layer in enumerate(self._weights.layers):
            qkv = layer.qkv(layer.input_norm(x))
            self._rotate(qkv[:, : self._rotated], rotation)
            self._attention(index, qkv, batch.attention, attended)
            if index == shape.layers - 1:  # no layer is left to read the KV of the rows without logits
                x, attended = x[batch.sampled], attended[batch.sampled]
            x.add_(layer.o(attended))
            both = layer.gate_up(layer.post_norm(x))
            gate, up = both[:, : shape.intermediate], both[:, shape.intermediate :]
            x.add_(layer.down(silu(gate).mul_(up)))
        return self._weights.head(self._weights.norm(x))

    def _rotate(self, heads: torch.Tensor, rotation: torch.Tensor) -> None:
        """Rotate queries and keys in place: each adjacent pair is one complex number."""
        pairs = heads.unflatten(1, (-1, self._shape.head_dim // 2, 2))
        if heads.dtype == torch.float32:
            torch.view_as_complex(pairs).mul_(rotation)
        else:
            pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * rotation))


def _rotations(facts: ModelFacts, length: int) -> torch.Tensor:
    """Unit complex numbers [length, head_dim / 2]: e^(i * position * theta^(-2j / head_dim))."""
    head_dim = facts.shape.head_dim
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequencies = 1.0 / (facts.rope_theta**exponents)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return torch.polar(torch.ones_like(angles), angles)

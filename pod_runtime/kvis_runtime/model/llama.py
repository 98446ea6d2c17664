"""The forward pass of Llama-family decoders: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

All tokens of a step, of all sequences, go through each matrix as one batch of rows; only attention looks
at which row belongs to whom. Written for CPUs: fused projections, in-place updates, no temporary that is
not needed.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import linear, rms_norm, silu

from kvis_runtime.kv.store import KVStore
from kvis_runtime.model.attention import AttentionPlan, PagedAttention
from kvis_runtime.model.loader import ModelFacts, Weights
from kvis_runtime.model.vocabulary import VocabularyProjection


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
        self._eps = facts.rms_norm_eps
        self._embedding, self._layers, self._norm = weights.embedding, weights.layers, weights.norm
        self._logits = VocabularyProjection(weights.head)
        self._dtype = weights.head.dtype
        self._attention = PagedAttention(facts.shape, store)
        self._rotations = _rotations(facts, max_model_len)
        self._rotated = (facts.shape.heads + facts.shape.kv_heads) * facts.shape.head_dim
        # [in, out] views: addmm_ adds a projection to the residual in the multiplication itself.
        self._o = [layer.o.t() for layer in weights.layers]
        self._down = [layer.down.t() for layer in weights.layers]

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits [sampled rows, vocabulary] in the dtype of the weights."""
        shape = self._shape
        x = self._embedding[batch.tokens].to(self._dtype)
        rotation = self._rotations[batch.positions][:, None, :]
        attended = x.new_empty(x.shape[0], shape.heads * shape.head_dim)
        for index, layer in enumerate(self._layers):
            qkv = linear(rms_norm(x, (shape.hidden,), layer.input_norm, self._eps), layer.qkv)
            self._rotate(qkv[:, : self._rotated], rotation)
            self._attention(index, qkv, batch.attention, attended)
            x.addmm_(attended, self._o[index])
            both = linear(rms_norm(x, (shape.hidden,), layer.post_norm, self._eps), layer.gate_up)
            gate, up = both[:, : shape.intermediate], both[:, shape.intermediate :]
            x.addmm_(silu(gate, inplace=True).mul_(up), self._down[index])
        last = rms_norm(x[batch.sampled], (shape.hidden,), self._norm, self._eps)
        return self._logits(last)

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

"""Attention over the paged cache, planned once per step and run once per layer.

Decodes of similar length are read as one padded batch; each prompt chunk is attended by itself, straight
from the projection when nothing of it was cached. Query heads that share a KV head are handed to the
kernel as further query rows (decode) or with a stride of zero (prompts), so K and V are never repeated in
memory.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from kvis_kv.models import ModelShape
from kvis_runtime.engine.scheduler import Chunk
from kvis_runtime.kv.store import KVStore, Window

PADDING_LIMIT = 1.5
"""A decode joins a batch whose longest sequence has at most this many times its blocks + SLACK_BLOCKS."""
SLACK_BLOCKS = 4
GROUP_TOKENS = 2560
"""Tokens read together, padding included: a gathered group should still be in the CPU's cache when attended.
With 3 KV heads of 64 in float32, groups of 8 and of 16 sequences of 160 tokens take equally long, of 32 a
third more."""


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Consecutive rows of one new token each, padded to the blocks of the longest."""

    first: int
    size: int
    cached: Window
    mask: torch.Tensor  # [size, 1, 1, tokens], 0 or -inf


@dataclass(frozen=True, slots=True)
class PromptSegment:
    """Rows of one prompt chunk. `cached` and `mask` are None when the chunk starts the sequence."""

    first: int
    size: int
    context: int
    cached: Window | None
    mask: torch.Tensor | None  # [size, context], 0 or -inf


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What every layer does in this step. `slots` [rows] says where each row's KV goes."""

    slots: torch.Tensor
    decodes: tuple[DecodeGroup, ...]
    prompts: tuple[PromptSegment, ...]


def execution_order(chunks: list[Chunk]) -> list[Chunk]:
    """Decodes first, longest context first, so that similar lengths lie side by side; then the prompts."""
    decodes = sorted((chunk for chunk in chunks if chunk.count == 1), key=lambda chunk: -chunk.end)
    return decodes + [chunk for chunk in chunks if chunk.count > 1]


def plan_attention(chunks: list[Chunk], store: KVStore) -> AttentionPlan:
    """Plan for a step of chunks in execution order; valid until the next plan on this store."""
    block_size = store.block_size
    slots: list[int] = []
    for chunk in chunks:
        blocks = chunk.sequence.blocks
        slots.extend(
            blocks[position // block_size] * block_size + position % block_size
            for position in range(chunk.start, chunk.end)
        )
    decoding = [chunk for chunk in chunks if chunk.count == 1]
    groups = []
    first = 0
    while first < len(decoding):
        size = _group_size(decoding[first:], block_size)
        groups.append(_decode_group(decoding[first : first + size], first, store))
        first += size
    segments = []
    for chunk in chunks[len(decoding) :]:
        segments.append(_prompt_segment(chunk, first, store))
        first += chunk.count
    return AttentionPlan(torch.tensor(slots), tuple(groups), tuple(segments))


def _group_size(chunks: list[Chunk], block_size: int) -> int:
    longest = -(-chunks[0].end // block_size)
    most = max(1, GROUP_TOKENS // (longest * block_size))
    for size, chunk in enumerate(chunks[:most]):
        if longest > PADDING_LIMIT * -(-chunk.end // block_size) + SLACK_BLOCKS:
            return size
    return min(most, len(chunks))


def _decode_group(chunks: list[Chunk], first: int, store: KVStore) -> DecodeGroup:
    each = -(-chunks[0].end // store.block_size)
    blocks: list[int] = []
    for chunk in chunks:
        held = -(-chunk.end // store.block_size)
        blocks += chunk.sequence.blocks[:held]
        blocks += [0] * (each - held)
    lengths = torch.tensor([chunk.end for chunk in chunks])
    hidden = torch.arange(each * store.block_size) >= lengths[:, None]
    cached = store.window(torch.tensor(blocks), len(chunks))
    return DecodeGroup(first, len(chunks), cached, _mask(hidden, store)[:, None, None, :])


def _prompt_segment(chunk: Chunk, first: int, store: KVStore) -> PromptSegment:
    if chunk.start == 0:
        return PromptSegment(first, chunk.count, chunk.end, None, None)
    blocks = torch.tensor(chunk.sequence.blocks[: -(-chunk.end // store.block_size)])
    positions = torch.arange(chunk.start, chunk.end)
    hidden = torch.arange(chunk.end) > positions[:, None]
    return PromptSegment(first, chunk.count, chunk.end, store.window(blocks, 1), _mask(hidden, store))


def _mask(hidden: torch.Tensor, store: KVStore) -> torch.Tensor:
    return torch.zeros(hidden.shape, dtype=store.compute_dtype).masked_fill_(hidden, float("-inf"))


class PagedAttention:
    """Runs a plan. Inputs are the fused projection [rows, q|k|v] after rotation."""

    def __init__(self, shape: ModelShape, store: KVStore) -> None:
        self._store = store
        self._kv_heads = shape.kv_heads
        self._per_group = shape.heads // shape.kv_heads
        self._head_dim = shape.head_dim
        self._queries = shape.heads * shape.head_dim

    def __call__(self, layer: int, qkv: torch.Tensor, plan: AttentionPlan, out: torch.Tensor) -> None:
        """Store the new KV of `layer`, then write the attended rows to `out` [rows, heads * head_dim]."""
        self._store.write(layer, plan.slots, qkv[:, self._queries :])
        grouped = (-1, self._kv_heads, self._per_group, self._head_dim)
        queries = qkv[:, : self._queries].unflatten(1, grouped[1:])
        result = out.view(grouped)
        for group in plan.decodes:
            rows = slice(group.first, group.first + group.size)
            self._store.read(layer, group.cached)
            result[rows] = scaled_dot_product_attention(
                queries[rows], group.cached.keys, group.cached.values, attn_mask=group.mask
            )
        for segment in plan.prompts:
            rows = slice(segment.first, segment.first + segment.size)
            keys, values = self._keys_values(layer, qkv[rows], segment)
            attended = scaled_dot_product_attention(
                queries[rows].permute(1, 2, 0, 3),
                keys,
                values,
                attn_mask=segment.mask,
                is_causal=segment.mask is None,
            )
            result[rows] = attended.permute(2, 0, 1, 3)

    def _keys_values(
        self, layer: int, qkv: torch.Tensor, segment: PromptSegment
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V as [kv_heads, query heads of each, context, head_dim]; the second stride is 0."""
        if segment.cached is None:
            both = qkv[:, self._queries :].unflatten(1, (2, self._kv_heads, self._head_dim))
            keys, values = both[:, 0].transpose(0, 1), both[:, 1].transpose(0, 1)
        else:
            self._store.read(layer, segment.cached)
            keys, values = (
                kv[0, :, : segment.context] for kv in (segment.cached.keys, segment.cached.values)
            )
        heads = (-1, self._per_group, -1, -1)
        return keys[:, None].expand(heads), values[:, None].expand(heads)

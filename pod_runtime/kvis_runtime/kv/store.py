"""The paged KV tensors: one row per token slot, blocks of consecutive rows, one tensor per layer.

Row layout is [K of all KV heads | V of all KV heads], the order in which the fused projection produces
them, so a token is written by one copy and a block is read by one. Which block belongs to whom is the
block pool's business. Memory starts as zeros: padding reads block 0, and masked garbage must at least be
finite.
"""

import torch

from kvis_kv.dtypes import KVDtype
from kvis_kv.layout import KVLayout

TORCH_DTYPES = {KVDtype.FLOAT32: torch.float32, KVDtype.BFLOAT16: torch.bfloat16}


class KVStore:
    """KV rows of all layers. Gathers are returned in `compute` dtype, whatever the stored one is."""

    def __init__(self, layout: KVLayout, num_blocks: int, *, compute: torch.dtype) -> None:
        shape = layout.shape
        self._block_size = layout.block_size
        self._width = 2 * shape.kv_heads * shape.head_dim
        self._kv_heads = shape.kv_heads
        self._head_dim = shape.head_dim
        self._compute = compute
        self._dtype = TORCH_DTYPES[layout.dtype]
        self._rows = [
            torch.zeros(num_blocks * layout.block_size, self._width, dtype=self._dtype)
            for _ in range(shape.layers)
        ]
        self._blocks = [rows.view(num_blocks, layout.block_size * self._width) for rows in self._rows]
        # Gathers of all layers share one buffer, which therefore stays in the CPU's cache between them.
        self._gathered = torch.empty(0, dtype=self._dtype)

    def write(self, layer: int, slots: torch.Tensor, kv: torch.Tensor) -> None:
        """Store kv [tokens, K|V] at `slots` [tokens]."""
        self._rows[layer].index_copy_(0, slots, kv if kv.dtype == self._dtype else kv.to(self._dtype))

    def gather(self, layer: int, blocks: torch.Tensor, sequences: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V, each [sequences, kv_heads, tokens, head_dim], of `blocks` [sequences * blocks each].

        The views are valid until the next gather.
        """
        need = blocks.numel() * self._blocks[layer].shape[1]
        if self._gathered.numel() < need:
            self._gathered = torch.empty(need + need // 4, dtype=self._dtype)
        out = self._gathered[:need].view(blocks.numel(), -1)
        torch.index_select(self._blocks[layer], 0, blocks, out=out)
        rows = out if self._dtype == self._compute else out.to(self._compute)
        both = rows.view(sequences, -1, 2, self._kv_heads, self._head_dim)
        return both[:, :, 0].transpose(1, 2), both[:, :, 1].transpose(1, 2)

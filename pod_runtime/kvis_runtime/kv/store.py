"""The paged KV tensors: one row per token slot, blocks of consecutive rows, one tensor per layer.

Row layout is [K of all KV heads | V of all KV heads], the order in which the fused projection produces
them, so a token is written by one copy and a block is read by one. Which block belongs to whom is the
block pool's business. Memory starts as zeros: padding reads block 0, and masked garbage must at least be
finite.
"""

from dataclasses import dataclass

import torch

from kvis_kv.dtypes import KVDtype
from kvis_kv.layout import KVLayout

TORCH_DTYPES = {KVDtype.FLOAT32: torch.float32, KVDtype.BFLOAT16: torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Window:
    """Blocks of some sequences, and where they lie when a layer's KV of them is read, by the next read.

    `keys` and `values` are [sequences, kv_heads, tokens, head_dim]: views of `widened`, which is `stored` in
    the dtype that is computed in, and the same tensor where the dtypes are.
    """

    blocks: torch.Tensor
    stored: torch.Tensor
    widened: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor


class KVStore:
    """KV rows of all layers. Reads are in `compute` dtype, whatever the stored one is."""

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
        # All reads share one buffer, which therefore stays in the CPU's cache between them.
        self._buffers = {dtype: torch.empty(0, dtype=dtype) for dtype in (self._dtype, compute)}

    def write(self, layer: int, slots: torch.Tensor, kv: torch.Tensor) -> None:
        """Store kv [tokens, K|V] at `slots` [tokens]."""
        self._rows[layer].index_copy_(0, slots, kv if kv.dtype == self._dtype else kv.to(self._dtype))

    @property
    def block_size(self) -> int:
        """Tokens per block."""
        return self._block_size

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of what is read."""
        return self._compute

    def window(self, blocks: torch.Tensor, sequences: int) -> Window:
        """A window on `blocks` [sequences * blocks each], to be read for any layer in this step."""
        stored, widened = (self._buffer(dtype, blocks.numel()) for dtype in (self._dtype, self._compute))
        both = widened.view(sequences, -1, 2, self._kv_heads, self._head_dim)
        return Window(blocks, stored, widened, both[:, :, 0].transpose(1, 2), both[:, :, 1].transpose(1, 2))

    def read(self, layer: int, window: Window) -> None:
        """Bring the KV of `layer` into the window; what another window held is lost."""
        torch.index_select(self._blocks[layer], 0, window.blocks, out=window.stored)
        if self._dtype != self._compute:
            window.widened.copy_(window.stored)

    def _buffer(self, dtype: torch.dtype, blocks: int) -> torch.Tensor:
        size = blocks * self._block_size * self._width
        if self._buffers[dtype].numel() < size:
            self._buffers[dtype] = torch.empty(size + size // 4, dtype=dtype)
        return self._buffers[dtype][:size].view(blocks, -1)

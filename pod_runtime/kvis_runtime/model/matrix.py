"""The weight matrices of the forward pass, kept as float16 where that is exact, multiplied in float32.

A decode step reads every weight once for a handful of rows, so it is as fast as weights come from memory:
half the bytes are half the time. Published weights are bfloat16 or float16 at heart, and float16 holds them
whole, except that the tiniest are rounded to its smallest steps. FBGEMM widens them to float32 in registers;
activations and sums stay float32.

One layer of SmolLM2-135M, float32 weights by MKL against this (ms, one core with AVX2, weights not in cache):

| rows | 8 | 32 | 1024 |
| float32 | 2.3 | 4.1 | 80 |
| float16 | 1.1 | 2.8 | 79 |
"""

import torch
from torch.nn.functional import linear

SMALLEST_ROUNDING = 2.0**-25
"""Half of float16's smallest step. Weights that lose no more are stored so: a millionth of a usual weight."""
PART_BYTES = 4 * 2**20
"""The kernel walks over all columns for every six rows: a part should stay in the CPU's cache meanwhile.
49152 columns of 576 take 21.6 ms in parts and 23.7 ms at once (32 rows, one core)."""
COLUMN_STEP = 64
"""Parts end where the kernel's own blocks of 16 or 32 columns do; what is left over runs on one thread."""
KERNEL_ENGINES = ("x86", "fbgemm")
"""torch's names for what has the kernel; it chooses one of them where the CPU has AVX2."""


class Matrix:
    """A weight [out, in]; calling it takes rows [rows, in] to [rows, out]."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._plain: torch.Tensor | None = None
        self._parts: list[torch.ScriptObject] = []
        if not _can_pack(weight):
            self._plain = weight
            return
        columns = max(1, PART_BYTES // (2 * weight.shape[1] * COLUMN_STEP)) * COLUMN_STEP
        for part in weight.split(columns):
            self._parts.append(torch.ops.quantized.linear_prepack_fp16(part.contiguous(), None))

    @property
    def is_packed(self) -> bool:
        """Whether the weight is kept as float16."""
        return self._plain is None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """The product, in the dtype of the rows."""
        if self._plain is not None:
            return linear(rows, self._plain)
        products = [torch.ops.quantized.linear_dynamic_fp16(rows, part) for part in self._parts]
        return products[0] if len(products) == 1 else torch.cat(products, dim=-1)


def _can_pack(weight: torch.Tensor) -> bool:
    if weight.dtype != torch.float32 or torch.backends.quantized.engine not in KERNEL_ENGINES:
        return False
    lost = weight.half().float().sub_(weight).abs_().max()  # infinite for a weight beyond float16's range
    return bool(lost <= SMALLEST_ROUNDING)

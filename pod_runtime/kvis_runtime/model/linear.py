"""Matrix products with the element-wise step that follows them fused in.

oneDNN does both in one pass over weights that are packed once, which counts where a step has few rows:
decoding reads every weight for a handful of tokens. Where it lacks the dtype (bfloat16 on CPUs without
such units), the plain operations compute the same.
"""

from typing import Protocol

import torch
from torch.nn.functional import linear, silu

PACKED_FOR_ROWS = 16
"""Rows that the packed layout suits best; a typical decode batch. Prompts lose nothing measurable by it."""


class Projection(Protocol):
    """x [rows, in] times a weight [out, in]."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The product."""

    def silu(self, x: torch.Tensor) -> torch.Tensor:
        """The product, through SiLU."""

    def times(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        """The product, multiplied by `factor` [rows, out]."""

    def plus(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """The product, added to `residual` [rows, out]."""


class PackedProjection:
    """By oneDNN; keeps the packed weight only."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "none", [], "")

    def silu(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "swish", [], "")

    def times(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(x, factor, self._packed, None, "mul")

    def plus(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._packed, None, "add")


class PlainProjection:
    """By torch's own operations."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._weight)

    def silu(self, x: torch.Tensor) -> torch.Tensor:
        return silu(linear(x, self._weight), inplace=True)

    def times(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return linear(x, self._weight).mul_(factor)

    def plus(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return torch.addmm(residual, x, self._weight.t())


def projection(weight: torch.Tensor) -> Projection:
    """The faster one that this CPU has for the weight's dtype."""
    supported = torch.backends.mkldnn.is_available() and (
        weight.dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    return PackedProjection(weight) if supported else PlainProjection(weight)

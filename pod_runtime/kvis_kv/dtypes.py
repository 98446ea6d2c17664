"""KV-cache dtypes: how many bytes one head of one token takes, and which engine can store it.

Shared by the operator's sizing and by the runtime, so both sides count the same bytes. The names are vLLM's.
Not here: how a value is encoded; that is the runtime's codec.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class KVDtype(StrEnum):
    """A storable KV dtype. `auto` is not one of them: `resolve` turns it into the weights' dtype."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    INT8_PER_TOKEN_HEAD = "int8_per_token_head"
    INT4_PER_TOKEN_HEAD = "int4_per_token_head"
    NVFP4 = "nvfp4"


AUTO: Final = "auto"
TORCH_ENGINE: Final = frozenset({KVDtype.FLOAT32, KVDtype.BFLOAT16})
"""What the torch engine stores today; every other dtype needs vLLM."""


@dataclass(frozen=True, slots=True)
class _Encoding:
    bits: int
    scale_bytes: int = 0  # per token, head and side
    elements_per_scale: int = 0  # one further scale byte per so many elements; 0 = none


_ENCODINGS: Final[dict[KVDtype, _Encoding]] = {
    KVDtype.FLOAT32: _Encoding(32),
    KVDtype.FLOAT16: _Encoding(16),
    KVDtype.BFLOAT16: _Encoding(16),
    KVDtype.FP8_E4M3: _Encoding(8),
    KVDtype.FP8_E5M2: _Encoding(8),
    KVDtype.INT8_PER_TOKEN_HEAD: _Encoding(8, scale_bytes=4),
    KVDtype.INT4_PER_TOKEN_HEAD: _Encoding(4, scale_bytes=4),
    KVDtype.NVFP4: _Encoding(4, elements_per_scale=16),
}


def head_bytes(dtype: KVDtype, head_dim: int) -> int:
    """Bytes of one side (K or V) of one head of one token, scales included.

    | dtype (head_dim 128) | bytes |
    | bfloat16 | 256 |
    | int8_per_token_head | 128 + 4 |
    | nvfp4 | 64 + 8 |
    """
    encoding = _ENCODINGS[dtype]
    payload = -(-head_dim * encoding.bits // 8) + encoding.scale_bytes
    if encoding.elements_per_scale:
        payload += -(-head_dim // encoding.elements_per_scale)
    return payload


def resolve(name: str, *, weights: KVDtype) -> KVDtype:
    """The dtype that `name` asks for; `auto` follows the weights. ValueError lists the known names."""
    if name == AUTO:
        return weights
    try:
        return KVDtype(name)
    except ValueError as error:
        known = ", ".join([AUTO, *KVDtype])
        raise ValueError(f"{name!r} is not a KV dtype; known are {known}") from error

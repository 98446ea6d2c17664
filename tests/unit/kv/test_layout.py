"""KV arithmetic against known figures: shapes from model cards, and lines that vLLM logs at its start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvis_kv.dtypes import KVDtype, head_bytes, resolve
from kvis_kv.layout import BLOCK_SIZES, KVLayout, bytes_per_token, nearest_block_size
from kvis_kv.models import BUNDLED, ModelShape

MIB = 2**20
SMOL = BUNDLED["smollm2-135m"]


def a_shape(*, layers: int, kv_heads: int, head_dim: int, heads: int = 64, context: int = 8192) -> ModelShape:
    return ModelShape("any", layers, heads, kv_heads, head_dim, 8192, 28672, 128256, context, False)


@pytest.mark.parametrize(
    ("layers", "kv_heads", "head_dim", "dtype", "expected"),
    [
        (80, 8, 128, KVDtype.BFLOAT16, 327_680),  # Llama-3-70B
        (40, 40, 128, KVDtype.BFLOAT16, 819_200),  # Llama-2-13B, no grouping
        (32, 8, 128, KVDtype.FP8_E4M3, 65_536),  # Llama-3-8B
        (32, 8, 128, KVDtype.INT4_PER_TOKEN_HEAD, 34_816),
        (32, 8, 128, KVDtype.NVFP4, 36_864),
        (30, 3, 64, KVDtype.BFLOAT16, 23_040),  # SmolLM2-135M
        (30, 3, 64, KVDtype.INT8_PER_TOKEN_HEAD, 12_240),
        (30, 3, 64, KVDtype.NVFP4, 6_480),
    ],
)
def test_bytes_per_token_match_known_models(layers, kv_heads, head_dim, dtype, expected):
    assert bytes_per_token(a_shape(layers=layers, kv_heads=kv_heads, head_dim=head_dim), dtype) == expected


def test_llama_70b_needs_a_gib_and_a_quarter_for_4096_tokens():
    layout = KVLayout(a_shape(layers=80, kv_heads=8, head_dim=128), KVDtype.BFLOAT16, 16)
    assert layout.memory_for(4096) == 1.25 * 2**30


def test_grouping_64_heads_into_8_saves_seven_eighths():
    full = bytes_per_token(a_shape(layers=80, kv_heads=64, head_dim=128), KVDtype.BFLOAT16)
    grouped = bytes_per_token(a_shape(layers=80, kv_heads=8, head_dim=128), KVDtype.BFLOAT16)
    assert 1 - grouped / full == 0.875


@pytest.mark.parametrize(
    ("dtype", "block_size", "length", "blocks", "tokens", "concurrency"),
    [
        (KVDtype.BFLOAT16, 128, 8192, 182, 23_296, 2.84),
        (KVDtype.FLOAT32, 32, 2048, 364, 11_648, 5.69),
    ],
)
def test_512_mib_hold_what_vllm_logs(dtype, block_size, length, blocks, tokens, concurrency):
    layout = KVLayout(SMOL, dtype, block_size)
    assert layout.blocks_in(512 * MIB) == blocks
    assert layout.tokens_in(512 * MIB) == tokens
    assert round(layout.max_concurrency(512 * MIB, length), 2) == concurrency


def test_the_longest_sequence_is_never_beyond_the_context():
    layout = KVLayout(SMOL, KVDtype.BFLOAT16, 16)
    assert layout.longest_in(2**40) == SMOL.context


def test_memory_below_one_block_holds_no_sequence():
    layout = KVLayout(SMOL, KVDtype.BFLOAT16, 16)
    assert layout.longest_in(layout.block_bytes - 1) == 0


@given(
    st.sampled_from(list(KVDtype)),
    st.sampled_from(BLOCK_SIZES),
    st.integers(1, SMOL.context),
)
def test_the_memory_for_a_length_holds_that_length_and_one_byte_less_does_not(dtype, block_size, length):
    layout = KVLayout(SMOL, dtype, block_size)
    memory = layout.memory_for(length)
    assert layout.longest_in(memory) >= length
    assert layout.longest_in(memory - 1) < length


def test_bundled_model_has_the_published_parameter_count():
    assert SMOL.parameters == 134_515_008


def test_auto_follows_the_weights():
    assert resolve("auto", weights=KVDtype.BFLOAT16) is KVDtype.BFLOAT16


def test_an_unknown_dtype_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="'int8' is not a KV dtype; known are auto, float32"):
        resolve("int8", weights=KVDtype.FLOAT32)


@pytest.mark.parametrize(("wanted", "offered"), [(0, 8), (7, 8), (12, 8), (100, 128), (4096, 256)])
def test_the_nearest_block_size_is_offered(wanted, offered):
    assert nearest_block_size(wanted) == offered


def test_a_head_of_one_byte_values_takes_its_dimension():
    assert head_bytes(KVDtype.FP8_E4M3, 64) == 64

"""Settings that cannot work are refused with the field and a value that would."""

from pathlib import Path

import pytest

from kvis_kv.dtypes import KVDtype
from kvis_kv.layout import bytes_per_token
from kvis_kv.models import BUNDLED
from kvis_runtime.engine.config import ConfigError, EngineConfig
from kvis_runtime.engine.limits import resolve_limits
from kvis_runtime.engine.request import Request, RequestError, SamplingParams, new_sequence

SMOL = BUNDLED["smollm2-135m"]
TOKEN_BYTES = bytes_per_token(SMOL, KVDtype.FLOAT32)


@pytest.mark.parametrize(
    ("settings", "field", "hint"),
    [
        ({"block_size": 0}, "block_size", "0 is not one of 8, 16, .*; 8 would work"),
        ({"block_size": 7}, "block_size", "8 would work"),
        ({"block_size": 100}, "block_size", "128 would work"),
        ({"dtype": "float16"}, "dtype", "'float16' is not one of float32, bfloat16"),
        ({"kv_cache_dtype": "int8"}, "kv_cache_dtype", "stores auto, bfloat16, float32, not 'int8'"),
        ({"max_num_seqs": 0}, "max_num_seqs", "at least 1"),
        ({"max_num_seqs": 64, "max_num_batched_tokens": 32}, "max_num_batched_tokens", "64 would work"),
        ({"max_model_len": 1}, "max_model_len", "at least 2"),
        ({"threads": -1}, "threads", "at least 0"),
        ({"kv_cache_memory_bytes": 0}, "kv_cache_memory_bytes", "at least 1"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_one_that_would(settings, field, hint):
    with pytest.raises(ConfigError, match=hint) as caught:
        EngineConfig(Path("m"), **settings)
    assert caught.value.field == field


def test_too_little_memory_is_answered_with_the_length_that_fits_and_the_memory_needed():
    config = EngineConfig(Path("m"), kv_cache_memory_bytes=100 * TOKEN_BYTES, max_model_len=2048)
    with pytest.raises(ConfigError, match=f"max_model_len=96 would fit, or give {2048 * TOKEN_BYTES} bytes"):
        resolve_limits(config, SMOL)


def test_memory_below_one_block_fits_no_sequence():
    config = EngineConfig(Path("m"), kv_cache_memory_bytes=1, max_model_len=2048)
    with pytest.raises(ConfigError, match="no sequence fits"):
        resolve_limits(config, SMOL)


def test_a_length_beyond_the_context_is_refused_with_the_context():
    config = EngineConfig(Path("m"), max_model_len=10_000)
    with pytest.raises(ConfigError, match="8192 would work"):
        resolve_limits(config, SMOL)


def test_no_length_means_the_models_context():
    config = EngineConfig(Path("m"), kv_cache_memory_bytes=8192 * TOKEN_BYTES)
    assert resolve_limits(config, SMOL).max_model_len == 8192


@pytest.mark.parametrize("length", [64, 100])
def test_a_prompt_that_leaves_no_room_for_output_is_refused(length):
    request = Request("r", tuple(range(length)))
    with pytest.raises(RequestError, match="at most 63 prompt tokens would work"):
        new_sequence(request, max_model_len=64, eos_ids=frozenset(), now=0.0)


def test_an_empty_prompt_is_refused():
    with pytest.raises(RequestError, match="empty"):
        new_sequence(Request("r", ()), max_model_len=64, eos_ids=frozenset(), now=0.0)


@pytest.mark.parametrize(
    "params", [{"max_tokens": 0}, {"temperature": -0.1}, {"temperature": 2.1}, {"top_p": 0.0}, {"top_p": 1.1}]
)
def test_sampling_settings_out_of_range_are_refused_with_the_range(params):
    with pytest.raises(RequestError, match="must be"):
        SamplingParams(**params)


def test_end_tokens_are_ignored_only_when_asked():
    params = SamplingParams(ignore_eos=True, stop_token_ids=frozenset({5}))
    asked = new_sequence(Request("r", (1,), params), max_model_len=64, eos_ids=frozenset({2}), now=0.0)
    usual = new_sequence(Request("r", (1,)), max_model_len=64, eos_ids=frozenset({2}), now=0.0)
    assert (asked.stop_ids, usual.stop_ids) == ({5}, {2})

"""Our greedy tokens against transformers' `generate` on the bundled model, for every kind of batch."""

from pathlib import Path

import pytest

from kvis_kv.layout import KVLayout
from kvis_runtime.engine.config import EngineConfig

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(600)]

MODEL = Path(__file__).parents[3] / "build/models/smollm2-135m"


@pytest.fixture(scope="module")
def greedy():
    if not (MODEL / "config.json").is_file():
        pytest.skip(f"{MODEL} is missing: make model")
    return pytest.importorskip("bench.greedy")


@pytest.fixture(scope="module")
def expected(greedy):
    import torch

    torch.set_num_threads(1)
    return greedy.references(MODEL)


def an_engine(**settings):
    from kvis_runtime.model.llm import Engine

    # One thread: on a busy machine two of them wait for each other at every operation.
    defaults = {"max_model_len": 1024, "max_num_seqs": 16, "max_num_batched_tokens": 512, "threads": 1}
    return Engine.load(EngineConfig(MODEL, **(defaults | settings)))


def assert_equal(greedy, expected, got):
    found = greedy.differences(expected, got)
    for difference in found:
        print(difference)
    assert [d for d in found if not d.is_near_tie] == []


def prompts_of(expected):
    return [reference.prompt for reference in expected]


def test_each_prompt_alone_gives_the_reference_tokens(greedy, expected):
    engine = an_engine(max_num_seqs=1, enable_prefix_caching=False)
    assert_equal(greedy, expected, greedy.continue_all(engine, prompts_of(expected)))
    assert engine.stats().prefix_hits == 0


def test_a_mixed_batch_of_16_gives_the_reference_tokens(greedy, expected):
    engine = an_engine(enable_prefix_caching=False, max_num_batched_tokens=64)
    assert_equal(greedy, expected, greedy.continue_all(engine, prompts_of(expected)))


def test_prefix_hits_give_the_reference_tokens(greedy, expected):
    engine = an_engine()
    assert_equal(greedy, expected, greedy.continue_all(engine, prompts_of(expected)))
    first = engine.stats().prefix_hits
    assert_equal(greedy, expected, greedy.continue_all(engine, prompts_of(expected)))
    assert first > 0  # requests of one batch share the system prompt
    assert engine.stats().prefix_hits > 2 * first  # and find their whole prompts the second time


@pytest.mark.parametrize("prefix_caching", [True, False])
def test_preempted_requests_give_the_reference_tokens(greedy, expected, prefix_caching):
    from kvis_kv.dtypes import KVDtype
    from kvis_kv.models import BUNDLED

    layout = KVLayout(BUNDLED["smollm2-135m"], KVDtype.FLOAT32, 8)
    engine = an_engine(
        block_size=8,
        max_model_len=640,
        kv_cache_memory_bytes=layout.memory_for(640),
        enable_prefix_caching=prefix_caching,
    )
    assert_equal(greedy, expected, greedy.continue_all(engine, prompts_of(expected), salted=True))
    stats = engine.stats()
    assert stats.preemptions > 0
    assert stats.blocks_referenced == 0

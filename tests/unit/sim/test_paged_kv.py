"""Block accounting: sharing, eviction order, growth."""

import pytest

from kvis_sim.paged_kv import PagedKV, PrefixIndex


def test_a_prompt_takes_whole_blocks():
    kv = PagedKV(10, 4)
    assert kv.admit(9, (), 0)
    assert kv.in_use(0) == 3


def test_sequences_with_the_same_prefix_share_its_blocks():
    kv = PagedKV(10, 4)
    kv.admit(9, (1, 2), 0)
    kv.admit(9, (1, 2), 0)
    assert kv.in_use(0) == 2 + 1 + 1


def test_a_released_prefix_stays_as_idle_cache():
    kv = PagedKV(10, 4)
    kv.admit(9, (1, 2), 0)
    kv.end_prefill(9, (1, 2))
    assert (kv.in_use(0), kv.idle_blocks, kv.cached_prefix((1, 2, 3))) == (0, 2, 2)


def test_the_oldest_idle_prefix_is_evicted_first_and_from_its_tail():
    kv = PagedKV(4, 4)
    for blocks in ((1, 2), (3, 4)):
        kv.admit(8, blocks, 0)
        kv.end_prefill(8, blocks)
    kv.admit(4, (), 0)
    assert (kv.cached_prefix((1, 2)), kv.cached_prefix((3, 4))) == (1, 2)


def test_blocks_in_use_are_never_evicted():
    kv = PagedKV(4, 4)
    kv.admit(8, (1, 2), 0)
    assert kv.admit(8, (), 0)
    assert not kv.admit(4, (), 0)
    assert kv.cached_prefix((1, 2)) == 2


def test_a_newcomer_pays_only_for_blocks_that_nobody_holds():
    kv = PagedKV(4, 4)
    kv.admit(12, (1, 2, 3), 0)
    assert kv.admit(16, (1, 2, 3, 4), 0)


@pytest.mark.parametrize(("step", "blocks"), [(0, 2), (3, 2), (4, 3), (12, 5)])
def test_a_decoding_sequence_takes_a_block_every_block_size_steps(step, blocks):
    kv = PagedKV(10, 4)
    kv.admit(5, (), 0)
    kv.start_growing(5, 0, 0)
    assert kv.in_use(step) == blocks
    assert kv.tokens(step) == 5 + step


def test_growth_stops_where_memory_ends():
    kv = PagedKV(3, 4)
    kv.admit(5, (), 0)
    kv.start_growing(5, 0, 0)
    assert kv.growth_fits(0, 100) == 7


def test_the_index_knows_who_holds_what():
    index = PrefixIndex()
    first, second = PagedKV(10, 4, index, slot=0), PagedKV(10, 4, index, slot=1)
    first.admit(8, (1, 2), 0)
    second.admit(4, (1,), 0)
    assert index.holders == {1: 0b11, 2: 0b01}
    first.forget()
    assert index.holders == {1: 0b10}

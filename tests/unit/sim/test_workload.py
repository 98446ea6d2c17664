"""What may be done to a trace: thinning, merging shifted copies, laying a model of reuse over it."""

import random

import pytest

from kvis_sim import workload
from kvis_sim.workload import (
    Request,
    SharedPrefixes,
    Trace,
    delayed,
    merged,
    multiplied,
    rotated,
    thin,
    until,
)


def a_trace(*times, block_size=None):
    trace = Trace("t", block_size=block_size)
    for k, at in enumerate(times):
        trace.append(Request(at, 100 + k, 10, (k,) if block_size else ()))
    return trace


def times(stream):
    return [request.at for request in stream]


def test_a_rotated_trace_begins_later_and_wraps():
    assert times(rotated(a_trace(0.0, 1.0, 4.0, 10.0), 4.0)) == [0.0, 6.0, 6.0, 7.0]


def test_copies_multiply_the_load_and_keep_the_period():
    trace = a_trace(*range(100))
    stream = list(multiplied(trace, 4, random.Random(1)))
    assert len(stream) == 400
    assert times(stream) == sorted(times(stream))
    assert max(times(stream)) <= trace.duration


def test_copies_do_not_share_prefixes():
    stream = multiplied(a_trace(0.0, 1.0, block_size=16), 3, random.Random(1))
    assert len({block for request in stream for block in request.blocks}) == 6


def test_one_copy_is_the_trace_itself():
    trace = a_trace(0.0, 1.0, 2.0)
    assert list(multiplied(trace, 1, random.Random(1))) == list(trace.requests())


def test_thinning_keeps_about_the_fraction_and_the_times():
    kept = times(thin(a_trace(*range(10_000)).requests(), 0.25, random.Random(1)))
    assert 2300 < len(kept) < 2700
    assert set(kept) <= set(range(10_000))


def test_nothing_here_compresses_time():
    assert not [name for name in dir(workload) if "compress" in name or "speed" in name]


def test_streams_merge_in_order_of_time():
    first, second = a_trace(0.0, 2.0).requests(), a_trace(0.0, 2.0).requests()
    assert times(merged([first, delayed(second, 1.0)])) == [0.0, 1.0, 2.0, 3.0]


def test_until_stops_before_the_end():
    assert times(until(a_trace(0.0, 1.0, 2.0).requests(), 2.0)) == [0.0, 1.0]


def shared(fraction, **settings):
    stream = (Request(float(k), 160, 10) for k in range(1000))
    return list(SharedPrefixes(fraction, 16, **settings).apply(stream, random.Random(1)))


def test_shared_prefixes_cover_the_stated_fraction_in_whole_blocks():
    assert {len(request.blocks) for request in shared(0.5)} == {5}
    assert {len(request.blocks) for request in shared(0.0)} == {0}


def test_popular_groups_are_popular():
    stream = shared(0.5, groups=4)
    heads = [request.blocks[0] for request in stream]
    assert len(set(heads)) == 4
    assert max(map(heads.count, set(heads))) > 400


def test_a_switch_of_prompts_shares_nothing_with_before():
    stream = shared(0.5, switch_at=500.0)
    before = {block for request in stream[:500] for block in request.blocks}
    after = {block for request in stream[500:] for block in request.blocks}
    assert not before & after


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: thin(iter(()), 0.0, random.Random(0)), "thinning keeps a fraction in"),
        (lambda: multiplied(a_trace(0.0), 0, random.Random(0)), "by 0: choose 1 or more"),
        (lambda: SharedPrefixes(1.5, 16), "between 0 and 1, got 1.5"),
        (lambda: list(rotated(a_trace(0.0, 5.0), 9.0)), "choose 0 to 5.0 s"),
    ],
)
def test_impossible_wishes_are_refused_with_what_would_work(act, words):
    with pytest.raises(ValueError, match=words):
        act()

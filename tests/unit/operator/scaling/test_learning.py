"""The shape of requests while little of it is measured: after a restart of the operator, or of a young fleet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvis_operator.scaling.learning import WHOLE_SHAPE_SECONDS
from observations import Loop, a_spec

USUAL, OTHER = 1155.0, 2310.0


def seen(loop: Loop, seconds: float, *, until: float) -> Loop:
    """Ticks of a shape measured over `seconds` at first and `until` at last, with prompts twice as long as usual."""
    while seconds <= until:
        loop.tick(input_tokens=OTHER, shape_seconds=seconds)
        seconds += loop.spec.tick_seconds
    return loop


def steady() -> Loop:
    return Loop(a_spec(), 2).run(120, input_tokens=USUAL)


def input_tokens(loop: Loop) -> float:
    return loop.decisions[-1].numbers["input_tokens"]


def test_a_few_requests_after_a_restart_do_not_replace_ten_minutes_of_them():
    assert input_tokens(seen(steady(), 15.0, until=15.0)) == pytest.approx(USUAL * (1 + 15 / 540))


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_memory_weighs_the_share_of_the_window_that_is_missing(share):
    refilled = seen(steady(), 15.0, until=share * WHOLE_SHAPE_SECONDS)
    assert input_tokens(refilled) == pytest.approx(USUAL * (1 + share))


def test_a_whole_window_needs_no_memory():
    assert input_tokens(seen(steady(), 15.0, until=WHOLE_SHAPE_SECONDS)) == OTHER


def test_a_memory_of_moments_weighs_moments():
    young = Loop(a_spec(), 2)
    young.tick(input_tokens=USUAL, shape_seconds=15.0)
    young.tick(input_tokens=USUAL, shape_seconds=30.0)
    assert input_tokens(seen(young, 15.0, until=15.0)) == pytest.approx(USUAL + (OTHER - USUAL) * 15 / 45)


def test_without_a_memory_the_first_requests_are_the_shape():
    assert input_tokens(seen(Loop(a_spec(), 2), 15.0, until=15.0)) == OTHER


def test_a_shift_counts_at_once_all_the_same():
    loop = steady()
    loop.tick(input_tokens=OTHER, recent_input_tokens=OTHER, shape_seconds=15.0)
    assert input_tokens(loop) == pytest.approx(OTHER)


def test_answers_and_hits_are_remembered_likewise():
    loop = steady()
    loop.tick(output_tokens=422.0, hit_rate=0.9, shape_seconds=15.0)
    numbers = loop.decisions[-1].numbers
    assert numbers["output_tokens"] == pytest.approx(211.0 * (1 + 15 / 540))
    assert numbers["hit_rate"] == pytest.approx(0.3 + 0.6 * 15 / 540)


def test_a_silence_takes_nothing_from_what_is_remembered():
    loop = steady()
    loop.tick(input_tokens=None, output_tokens=None, hit_rate=None, shape_seconds=0.0)
    assert input_tokens(seen(loop, 15.0, until=15.0)) == pytest.approx(USUAL * (1 + 15 / 540))


@given(st.lists(st.floats(0.0, 700.0), min_size=1, max_size=12))
def test_the_shape_is_never_outside_of_what_was_seen(windows):
    loop = steady()
    for seconds in windows:
        loop.tick(input_tokens=OTHER, shape_seconds=seconds)
        assert USUAL - 1e-6 <= input_tokens(loop) <= OTHER + 1e-6
        assert loop.state.mix_seconds <= max(600.0, seconds)


def test_what_is_taken_away_is_judged_with_a_margin_until_the_shape_is_seen_in_full():
    whole, little = steady(), steady()
    whole.tick()
    little.tick(shape_seconds=30.0)
    full, partial = whole.decisions[-1].numbers, little.decisions[-1].numbers
    assert (full["rho_down"], partial["rho_down"]) == (0.80, 0.75)
    assert partial["need_keep"] == pytest.approx(full["need_keep"] * 0.85 / 0.80)
    assert partial["rho_up"] == full["rho_up"] == 0.85


def kept_and_grown_to(loop: Loop) -> tuple[float, float]:
    numbers = loop.decisions[-1].numbers
    return numbers["need_keep"], numbers["replica_rate"]


def test_requests_that_got_shorter_a_moment_ago_take_nothing_away():
    loop = Loop(a_spec(), 4).run(1800, rate=12.0)
    before, slow = kept_and_grown_to(loop)
    loop.tick(rate=12.0, recent_input_tokens=USUAL / 3)
    after, fast = kept_and_grown_to(loop)
    assert after == pytest.approx(before)
    assert fast > 1.2 * slow


def test_requests_that_got_longer_a_moment_ago_are_kept_for():
    loop = Loop(a_spec(), 4).run(1800, rate=12.0)
    before, _ = kept_and_grown_to(loop)
    loop.tick(rate=12.0, recent_input_tokens=USUAL * 3)
    assert kept_and_grown_to(loop)[0] > 1.2 * before


def test_what_is_kept_does_not_follow_a_shape_that_chance_explains():
    loop = Loop(a_spec(), 4).run(1800, rate=1.0, input_tokens=USUAL)
    before, slow = kept_and_grown_to(loop)
    loop.tick(rate=1.0, input_tokens=USUAL * 0.95)
    after, fast = kept_and_grown_to(loop)
    assert after == pytest.approx(before, rel=0.003)
    assert fast > 1.01 * slow


def test_what_is_kept_follows_a_shape_that_chance_does_not_explain():
    loop = Loop(a_spec(), 4).run(1800, rate=12.0, input_tokens=USUAL)
    before, _ = kept_and_grown_to(loop)
    loop.tick(rate=12.0, input_tokens=USUAL / 2)
    assert kept_and_grown_to(loop)[0] < 0.9 * before

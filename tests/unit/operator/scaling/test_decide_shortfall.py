"""How long a shortfall of replicas must last before it is followed."""

from kvis_operator.scaling.decision import Reason
from observations import Loop, a_spec


def steady() -> Loop:
    """Half an hour of a rate that four replicas carry."""
    return Loop(a_spec(), 4).run(1800, rate=16.2)


def test_a_small_shortfall_must_last_for_a_tick():
    loop = Loop(a_spec(), 4)
    assert [loop.tick(rate=17.5).replicas for _ in range(2)] == [4, 5]
    assert loop.decisions[0].reason is Reason.WITHIN_CAPACITY


def test_a_shortfall_that_ends_starts_over():
    loop = Loop(a_spec(), 4)
    assert [loop.tick(rate=rate).replicas for rate in (17.5, 16.0, 17.5, 16.0)] == [4] * 4


def test_a_shortfall_beyond_half_of_the_margin_is_met_at_once():
    assert Loop(a_spec(), 4).tick(rate=18.1).replicas == 4
    assert Loop(a_spec(), 4).tick(rate=18.2).replicas == 5


def test_one_that_the_usual_spread_explains_must_last_for_two_minutes():
    loop = steady()
    assert [loop.tick(rate=17.0).replicas for _ in range(9)] == [4] * 8 + [5]


def test_one_beyond_the_usual_spread_must_last_for_a_tick():
    loop = steady()
    assert [loop.tick(rate=18.0).replicas for _ in range(2)] == [4, 5]


def test_one_that_shows_in_a_queue_is_met_at_once_whatever_the_spread():
    assert steady().tick(rate=17.0, waiting=120.0).replicas == 5


def test_one_beyond_half_of_the_margin_is_met_at_once_whatever_the_spread():
    loop = Loop(a_spec(), 4).run(1800, rate=16.65)
    assert loop.state.spread.explains(18.2)
    assert loop.tick(rate=18.2).replicas == 5

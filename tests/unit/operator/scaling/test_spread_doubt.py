"""More deviations for a load that has stood still for long, or is new."""

import math
from dataclasses import replace

import pytest

from kvis_operator.scaling.spread import (
    CALM,
    KNOWN,
    LONGEST_CALM,
    LULL,
    NEW,
    NEW_SECONDS,
    PER_DOUBLING,
    SIGMAS,
    RateSpread,
)
from observations import NOON
from rate_spreads import MEMORY, after, unrested

DOUBLINGS = [(0.0, 1.0), (CALM, 1.0), (2 * CALM, 1.0 + PER_DOUBLING), (8 * CALM, 1.45), (99 * CALM, 1.45)]


class TestCalm:
    """How long a load has stood still decides how deep a lull must be, and how high a peak may be."""

    @pytest.mark.parametrize(("calm", "times"), DOUBLINGS)
    def test_every_doubling_asks_a_lull_for_more_deviations_up_to_a_night(self, calm, times):
        spread = replace(after(*[6.0] * 50, *[5.7] * 10), calm=calm)
        usual = spread.rates / spread.count
        below = (1.0 - 5.7 / usual) / math.sqrt(0.5 / (60.0 * usual) / 10)
        begins, alone = (times * deviations for deviations in LULL)
        counted = (below - begins) / (alone - begins)
        assert 0.0 < counted < 1.0
        assert spread.usual_peak(MEMORY, 0.0) == pytest.approx(usual - counted * (usual - 5.7))

    @pytest.mark.parametrize(("calm", "times"), DOUBLINGS)
    def test_every_doubling_puts_the_usual_peak_more_deviations_up(self, calm, times):
        peak = replace(after(*[6.0] * 200), calm=calm).usual_peak(MEMORY)
        assert peak == pytest.approx(6.0 + times * SIGMAS * math.sqrt(6.0 / 120.0))

    def test_it_grows_with_the_minutes_up_to_a_night(self):
        assert after(*[6.0] * 100).calm == 98.0  # the first two have none to be compared with
        assert after(*[6.0] * 600).calm == LONGEST_CALM

    @pytest.mark.parametrize("moved", [3.0, 9.0])
    def test_a_load_that_moves_ends_it_either_way(self, moved):
        assert after(*[6.0] * 200, *[moved] * 10).calm == 0.0

    @pytest.mark.parametrize(("minutes", "ended"), [(50, True), (600, False)])
    def test_what_is_a_move_early_is_a_lull_after_a_night(self, minutes, ended):
        spread = after(*[6.0] * minutes, 2.25)  # the level of 5.625 is 5.3 deviations down
        assert (spread.calm == 0.0) is ended

    def test_noise_does_not(self):
        assert after(*[5.9, 5.9, 6.1, 6.1] * 50).calm == 198.0

    def test_before_anything_is_usual_nothing_moves(self):
        assert after(*[6.0] * 8, *[3.0] * 5).calm == 11.0


def doubt(spread: RateSpread) -> float:
    """How many times the usual deviations its usual peak lies above its level."""
    level, peak = spread.usual_peak(MEMORY, 0.0), spread.usual_peak(MEMORY)
    settled = replace(spread, calm=0.0, new=False).usual_peak(MEMORY)
    assert level is not None
    assert peak is not None
    assert settled is not None
    return (peak - level) / (settled - level)


class TestNewLoad:
    """A load of which little is known takes more deviations, unless it has moved or has a past."""

    def test_its_first_minute_takes_the_most(self):
        assert doubt(after(6.0, served=90.0)) == pytest.approx(1.0 + NEW)

    def test_every_minute_that_is_known_asks_for_less(self):
        spread = replace(after(*[6.0] * 50, served=90.0), calm=0.0)
        assert doubt(spread) == pytest.approx(1.0 + NEW * (1.0 - spread.weight / KNOWN) ** 2)
        assert 40.0 < spread.weight < 48.0

    def test_after_three_hours_it_is_known(self):
        assert doubt(unrested(after(*[6.0] * 190, served=90.0))) == 1.0

    @pytest.mark.parametrize(("served", "new"), [(NEW_SECONDS, True), (NEW_SECONDS + 1.0, False)])
    def test_a_service_with_older_replicas_has_a_past_that_got_lost(self, served, new):
        assert after(6.0, served=served).new is new
        assert after(*[6.0] * 30, served=served).new is new

    def test_a_service_of_unknown_age_may_be_new(self):
        assert RateSpread().seen(6.0, served=None, now=NOON).new is True

    @pytest.mark.parametrize("moved", [1.0, 18.0])
    def test_a_load_that_has_moved_is_new_no_more(self, moved):
        spread = after(*[6.0] * 40, *[moved] * 10, served=90.0)
        assert (spread.new, spread.seen(moved, served=90.0, now=NOON + 50 * 60.0).new) == (False, False)

    def test_a_clock_set_back_makes_nothing_new(self):
        old, new = after(*[6.0] * 5), after(*[6.0] * 5, served=90.0)
        assert old.seen(6.0, served=0.0, now=NOON - 60.0).new is False
        assert new.seen(6.0, served=0.0, now=NOON - 60.0).new is True

    def test_a_lull_of_it_must_be_deeper_too(self):
        lull = [6.0] * 50 + [5.7] * 10
        known, new = after(*lull).usual_peak(MEMORY, 0.0), after(*lull, served=90.0).usual_peak(MEMORY, 0.0)
        assert known is not None
        assert new is not None
        assert known < new

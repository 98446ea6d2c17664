import math
from dataclasses import replace

import pytest

from kvis_operator.scaling.spread import (
    ESTABLISHED,
    FORGETTING,
    LARGEST,
    LULL,
    PRIOR_MINUTES,
    SIGMAS,
    RateSpread,
)
from observations import NOON
from rate_spreads import MEMORY, after, unrested


def test_the_level_is_the_mean_of_the_last_ten_minutes():
    assert after(*[9.0] * 5, *[1.0, 3.0] * 5).level(MEMORY) == 2.0


def test_a_short_memory_looks_at_as_many_minutes():
    assert after(8.0, 8.0, 2.0, 4.0).level(120.0) == 3.0


@pytest.mark.parametrize("memory", [0.0, 59.0])
def test_a_memory_below_a_minute_expects_nothing(memory):
    spread = after(8.0, 8.0, 2.0)
    assert (spread.level(memory), spread.usual_peak(memory)) == (None, None)


def test_nothing_seen_is_unknown():
    assert (RateSpread().level(MEMORY), RateSpread().usual_peak(MEMORY)) == (None, None)


def test_before_anything_is_measured_the_spread_is_that_of_counting():
    assert after(6.0).usual_peak(MEMORY) == pytest.approx(6.0 + SIGMAS * math.sqrt(6.0 / 60.0))


def test_a_steady_rate_keeps_half_of_the_noise_of_counting():
    steady = unrested(after(*[6.0] * 200))
    assert steady.usual_peak(MEMORY) == pytest.approx(6.0 + SIGMAS * math.sqrt(6.0 / 120.0))


def test_neighbouring_minutes_are_two_apart_so_that_a_window_across_a_change_does_not_hide_it():
    alternating = unrested(after(*[4.0, 4.0, 6.0, 6.0] * 60))
    assert alternating.usual_peak(MEMORY) == pytest.approx(5.0 + SIGMAS * 5.0 * math.sqrt(0.08), rel=0.05)


def test_a_move_of_the_level_counts_as_three_usual_deviations():
    moved = after(*[60.0] * 20, 30.0)
    counting = PRIOR_MINUTES / (PRIOR_MINUTES + sum(FORGETTING**i for i in range(18))) / (60.0 * 45.0)
    assert moved.squares == pytest.approx(9.0 * counting)


def test_rates_that_always_jump_are_believed_in_the_end():
    jumping = unrested(after(*[1.0, 1.0, 9.0, 9.0] * 40))
    level = jumping.level(MEMORY)
    assert level is not None
    assert jumping.usual_peak(MEMORY) == pytest.approx(level * (1.0 + SIGMAS * LARGEST), rel=0.05)


def test_old_minutes_are_forgotten():
    spread = after(4.0, 4.0, 5.0)
    assert spread.seen(4.0, now=NOON + 180.0).squares == pytest.approx(FORGETTING * spread.squares)


def test_within_a_minute_nothing_changes():
    spread = after(4.0, 5.0)
    assert spread.seen(9.0, now=NOON + 60.0 + 59.0) == spread


class TestLull:
    """A usual peak of no deviations is the level that it starts from."""

    def test_a_level_below_the_long_mean_by_chance_is_that_mean(self):
        spread = after(*[6.0] * 200, *[5.9] * 10)
        assert spread.level(MEMORY) == pytest.approx(5.9)
        assert spread.usual_peak(MEMORY, 0.0) == pytest.approx(spread.rates / spread.count)
        assert spread.rates / spread.count == pytest.approx(5.98, abs=0.005)

    def test_a_level_that_chance_does_not_explain_counts_alone(self):
        assert after(*[6.0] * 200, *[3.0] * 10).usual_peak(MEMORY, 0.0) == pytest.approx(3.0)

    def test_between_them_the_long_mean_gives_way(self):
        spread = after(*[6.0] * 50, *[5.8] * 10)
        usual = spread.rates / spread.count
        below = (1.0 - 5.8 / usual) / math.sqrt(0.5 / (60.0 * usual) / 10)
        assert LULL[0] < below < LULL[1]
        expected = usual - (below - LULL[0]) / (LULL[1] - LULL[0]) * (usual - 5.8)
        assert spread.usual_peak(MEMORY, 0.0) == pytest.approx(expected)

    def test_the_first_minutes_have_no_long_mean(self):
        assert after(0.5).usual_peak(MEMORY, 0.0) == 0.5

    def test_a_level_above_the_long_mean_counts_alone(self):
        assert after(*[6.0] * 200, *[9.0] * 10).usual_peak(MEMORY, 0.0) == pytest.approx(9.0)

    def test_a_memory_shorter_than_the_minutes_of_the_level_takes_it_as_it_is(self):
        spread = after(*[6.0] * 200, *[5.9] * 10)
        assert spread.usual_peak(MEMORY - 1.0, 0.0) == pytest.approx(5.9)

    def test_idle_minutes_lower_the_long_mean(self):
        busy = after(*[6.0] * 200)
        idle = after(*[6.0] * 200, *[0.0] * 102)
        assert idle.rates / idle.count < 0.2 * busy.rates / busy.count

    def test_it_ends_within_the_minutes_of_the_level_where_the_load_is_gone(self):
        assert after(*[6.0] * 200, *[0.0] * 10).usual_peak(MEMORY) == 0.0

    def test_a_spread_without_a_long_mean_has_the_level_alone(self):
        spread = replace(after(*[6.0] * 200, *[5.9] * 10), rates=0.0)
        assert spread.usual_peak(MEMORY, 0.0) == pytest.approx(5.9)


def carrying(*carried: float | None, rate: float = 6.0) -> RateSpread:
    """Minutes of one rate, with what a replica carried in each."""
    spread = RateSpread()
    for i, one in enumerate(carried):
        spread = spread.seen(rate, one, now=NOON + i * 60.0)
    return spread


class TestUsuallyCarried:
    def test_a_moment_that_chance_explains_is_the_long_mean(self):
        within = 1.25 * 1.03  # 1.8 deviations of the mean of 3,600 requests
        assert carrying(*[1.25] * 60).usually_carried(within) == pytest.approx(1.25)

    @pytest.mark.parametrize("share", [0.8, 1.25])
    def test_a_shift_that_chance_does_not_explain_counts_alone(self, share):
        assert carrying(*[1.25] * 60).usually_carried(1.25 * share) == pytest.approx(1.25 * share)

    def test_between_them_the_long_mean_gives_way(self):
        spread = carrying(*[1.25] * 60)
        apart = 0.055
        counted = (apart * math.sqrt(3600.0) - LULL[0]) / (LULL[1] - LULL[0])
        assert 0.0 < counted < 1.0
        carried = spread.usually_carried(1.25 * math.exp(apart))
        assert carried == pytest.approx(1.25 * math.exp(counted * apart))

    def test_few_requests_are_far_apart_by_chance(self):
        assert carrying(*[1.25] * 60, rate=0.05).usually_carried(1.25 * 1.3) == pytest.approx(1.25)

    def test_nothing_remembered_has_what_it_carries_now(self):
        assert (RateSpread().usually_carried(1.25), after(6.0, 6.0, 6.0).usually_carried(1.25)) == (
            1.25,
            1.25,
        )

    @pytest.mark.parametrize("sums", [{"rates": 0.0}, {"needs": 0.0}, {"needs": 5e-324}])
    def test_sums_that_say_nothing_leave_it_as_it_is(self, sums):
        assert replace(carrying(*[1.25] * 60), **sums).usually_carried(1.0) == 1.0

    def test_it_is_the_mean_over_requests_not_over_minutes(self):
        spread = carrying(*[2.0, 1.0] * 100)
        assert spread.rates / spread.needs == pytest.approx(4.0 / 3.0, rel=0.01)

    def test_minutes_of_which_it_is_unknown_count_as_usual(self):
        spread = carrying(*[1.25] * 30, *[None] * 30)
        assert spread.rates / spread.needs == pytest.approx(1.25)


class TestExplained:
    def test_a_minute_within_the_usual_spread_of_a_level_that_has_not_moved(self):
        assert after(*[6.0] * 60).explains(6.0 + 0.99 * SIGMAS * math.sqrt(6.0 / 120.0))

    def test_not_a_minute_beyond_it(self):
        assert not after(*[6.0] * 60).explains(6.0 + 1.01 * SIGMAS * math.sqrt(6.0 / 120.0))

    def test_not_while_the_level_rises(self):
        rising = after(*[6.0] * 60, *[6.5] * 10)
        assert not rising.explains(6.5)

    def test_a_level_in_a_lull_is_judged_by_the_long_mean(self):
        assert after(*[6.0] * 60, *[4.0] * 10).explains(6.0)

    @pytest.mark.parametrize(("minutes", "known"), [(int(ESTABLISHED), False), (40, True)])
    def test_not_before_the_load_has_been_known_for_a_while(self, minutes, known):
        assert after(*[6.0] * minutes).explains(6.0) is known

    def test_not_where_nothing_came(self):
        assert not after(*[0.0] * 60).explains(0.0)
        assert not replace(after(*[6.0] * 60), rates=0.0).explains(6.0)


class TestUnseenMinutes:
    def test_an_unknown_rate_changes_no_minute(self):
        spread = after(4.0, 5.0)
        unknown = spread.seen(None, now=NOON + 600.0)
        assert (unknown.minutes, unknown.at, unknown.squares) == (spread.minutes, spread.at, spread.squares)

    def test_a_rate_known_again_is_no_minutes_rate_until_it_was_known_for_one(self):
        spread = after(4.0, 4.0).seen(None, now=NOON + 75.0)
        for seconds in (90.0, 105.0, 120.0, 135.0):
            spread = spread.seen(1.0, now=NOON + seconds)
        assert spread.minutes == (4.0, 4.0)
        assert spread.seen(3.0, now=NOON + 150.0).minutes == (4.0, 4.0, 3.0)

    @pytest.mark.parametrize("away", [120.0, 3600.0])
    def test_an_operator_that_was_away_takes_its_first_rate_for_no_minute_either(self, away):
        spread = after(4.0, 4.0).seen(1.0, now=NOON + 60.0 + away)
        assert spread.minutes == (4.0, 4.0)

    @pytest.mark.parametrize(("rate", "between"), [(9.0, 9.0), (1.0, 4.0)])
    def test_they_count_like_the_higher_of_their_neighbours(self, rate, between):
        spread = after(2.0, 3.0, 4.0).seen(None, now=NOON + 180.0)
        for seconds in (185.0, 245.0):
            spread = spread.seen(rate, now=NOON + seconds)
        assert spread.minutes == (2.0, 3.0, 4.0, between, rate)

    def test_they_spread_as_usual_even_where_the_rate_stays(self):
        seen = after(*[4.0] * 5)
        unseen = after(*[4.0] * 3).seen(None, now=NOON + 180.0)
        for seconds in (185.0, 245.0):
            unseen = unseen.seen(4.0, now=NOON + seconds)
        measured = 1.0  # the third minute, against the first
        usual = PRIOR_MINUTES / (PRIOR_MINUTES + measured) / (60.0 * 4.0)
        assert (unseen.minutes, seen.squares) == (seen.minutes, 0.0)
        assert unseen.squares == pytest.approx(FORGETTING * usual)

    @pytest.mark.parametrize("minutes", [(), (4.0,)])
    def test_a_state_that_nobody_could_have_written_starts_anew(self, minutes):
        spread = RateSpread(minutes, NOON, since=NOON + 1e9)
        for seconds in (300.0, 360.0):
            spread = spread.seen(2.0, now=NOON + seconds)
        assert spread.minutes[-1] == 2.0

    def test_a_long_absence_fills_no_more_than_the_minutes_kept(self):
        spread = after(*[4.0] * 20).seen(None, now=NOON + 20 * 60.0)
        for seconds in (86_400.0, 86_460.0):
            spread = spread.seen(2.0, now=NOON + seconds)
        assert spread.minutes == (*[4.0] * 9, 2.0)


def test_a_clock_set_back_starts_the_minutes_anew():
    assert after(4.0, 4.0).seen(5.0, now=NOON - 3600.0).minutes == (5.0,)


def test_no_requests_have_no_spread():
    assert after(*[0.0] * 12).usual_peak(MEMORY) == 0.0


def test_fewer_deviations_make_a_lower_usual_peak():
    spread = unrested(after(*[6.0] * 200))
    whole, half = spread.usual_peak(MEMORY), spread.usual_peak(MEMORY, SIGMAS / 2)
    assert whole is not None
    assert half == pytest.approx(6.0 + (whole - 6.0) / 2)
    assert spread.usual_peak(MEMORY, 0.0) == pytest.approx(6.0)

import pytest

from kvis_operator.signals.histogram import growth, merge, quantile
from kvis_operator.signals.sample import Histogram
from kvis_operator.signals.series import Fleet, Track
from observations import NOON, TICK, a_sample, histogram


def a_track(*samples) -> Track:
    track = Track()
    for sample in samples:
        track.add(sample)
    return track


def a_minute(**changes) -> Track:
    return a_track(*(a_sample(NOON + i * TICK, 2.0 * i * TICK, **changes) for i in range(5)))


def test_a_window_is_the_change_of_the_counters():
    window = a_minute().window(60.0)
    assert window is not None
    assert (window.change.finished, window.change.covered_seconds) == (120.0, 60.0)
    assert (window.change.prompt, window.change.hits, window.change.queries) == (
        120_000.0,
        36_000.0,
        120_000.0,
    )


def test_a_shorter_window_ends_at_the_newest_sample():
    window = a_minute().window(TICK)
    assert window is not None
    assert (window.first.at, window.last.at, window.change.finished) == (NOON + 45, NOON + 60, 30.0)


def test_one_sample_is_no_window():
    assert a_track(a_sample(NOON)).window(60.0) is None
    assert Track().window(60.0) is None


def test_a_missed_scrape_widens_the_window_instead_of_losing_requests():
    window = a_track(a_sample(NOON, 0.0), a_sample(NOON + 45, 90.0)).window(TICK)
    assert window is not None
    assert (window.change.finished, window.change.covered_seconds) == (90.0, 45.0)


def test_an_interval_with_a_counter_reset_adds_neither_tokens_nor_time():
    track = a_track(
        a_sample(NOON, 100.0), a_sample(NOON + 15, 130.0), a_sample(NOON + 30, 5.0), a_sample(NOON + 45, 35.0)
    )
    window = track.window(60.0)
    assert window is not None
    assert (window.change.finished, window.change.covered_seconds) == (60.0, 30.0)
    assert track.reset_within(30.0)
    assert not track.reset_within(14.0)


def test_a_counter_that_vanishes_is_unknown_and_comes_back_without_a_jump():
    track = a_track(a_sample(NOON, 0.0), a_sample(NOON + 15, 30.0))
    track.add(a_sample(NOON + 30, 60.0, finished_requests=None))
    gone = track.window(60.0)
    assert gone is not None
    assert gone.change.finished is None
    track.add(a_sample(NOON + 300, 600.0))
    track.add(a_sample(NOON + 315, 630.0))
    back = track.window(TICK)
    assert back is not None
    assert (back.change.finished, back.change.covered_seconds) == (30.0, 15.0)


def test_a_counter_that_was_never_there_is_unknown():
    window = a_minute(engine_steps=None).window(60.0)
    assert window is not None
    assert window.change.steps is None


def test_arrivals_count_what_is_still_inside():
    track = a_track(
        a_sample(NOON, 0.0, running=4.0, waiting=0.0), a_sample(NOON + 15, 30.0, running=6.0, waiting=3.0)
    )  # fmt: skip
    window = track.window(TICK)
    assert window is not None
    assert window.change.arrivals == 35.0


def test_arrivals_without_gauges_are_what_finished():
    window = a_minute(running=None, waiting=None).window(60.0)
    assert window is not None
    assert window.change.arrivals == 120.0


def test_hits_in_intervals_with_a_preemption_are_not_clean():
    track = a_track(
        a_sample(NOON, 0.0), a_sample(NOON + 15, 30.0), a_sample(NOON + 30, 60.0, preemptions=2.0)
    )
    window = track.window(60.0)
    assert window is not None
    assert (window.change.clean_hits, window.change.hits) == (9_000.0, 18_000.0)
    assert (window.change.clean_queries, window.change.preemptions) == (30_000.0, 2.0)


def test_a_window_does_not_reach_before_since():
    window = a_minute().window(60.0, since=NOON + 20)
    assert window is not None
    assert window.first.at == NOON + 30
    assert a_minute().window(60.0, since=NOON + 60) is None


def test_a_window_may_end_earlier():
    window = a_minute().window(TICK, until=NOON + 31)
    assert window is not None
    assert (window.first.at, window.last.at) == (NOON + 15, NOON + 30)


def test_a_late_or_repeated_sample_is_ignored():
    track = a_track(a_sample(NOON, 10.0), a_sample(NOON, 99.0), a_sample(NOON - 10, 5.0))
    assert track.last is not None
    assert track.last.sample.finished_requests == 10.0


def test_a_clock_set_back_starts_over():
    track = a_track(a_sample(NOON, 10.0), a_sample(NOON - 3600, 20.0))
    assert track.last is not None
    assert track.last.at == NOON - 3600
    assert track.window(60.0) is None


def test_memory_is_bounded_to_eleven_minutes():
    track = a_track(*(a_sample(NOON + i * TICK, float(i), ttft=histogram(0.2)) for i in range(400)))
    assert len(track._times) <= 47
    assert sum(point.ttft is not None for point in track._points) <= 13
    window = track.window(600.0)
    assert window is not None
    assert window.change.finished == 40.0


def test_it_knows_when_a_pod_last_moved():
    still = {"running": 2.0}
    track = a_track(*(a_sample(NOON + i * TICK, 50.0, **still) for i in range(4)))
    assert track.moved_at == NOON
    idle = a_track(*(a_sample(NOON + i * TICK, 50.0, running=0.0) for i in range(4)))
    assert idle.moved_at == NOON + 45


def test_a_fleet_forgets_pods_that_are_gone():
    fleet = Fleet()
    fleet.record("a", a_sample(NOON))
    fleet.record("b", a_sample(NOON))
    fleet.forget({"b"})
    assert len(fleet) == 1
    assert fleet.track("a") is None
    assert fleet.track("b") is not None


def test_quantiles_are_linear_inside_a_bucket():
    assert quantile(histogram(*[0.3] * 100), 0.95) == pytest.approx(0.1 + 0.4 * 0.95)
    assert quantile(histogram(0.05, 0.3, 0.3, 0.3), 0.5) == pytest.approx(0.1 + 0.4 / 3)


def test_a_quantile_beyond_the_last_bound_is_that_bound():
    assert quantile(histogram(*[9.0] * 10), 0.95) == 5.0


def test_no_observations_have_no_quantile():
    assert quantile(histogram(), 0.95) is None
    assert quantile(Histogram((), (), 0.0), 0.95) is None


def test_growth_of_a_histogram():
    grown = growth(histogram(0.2), histogram(0.2, 0.7, 3.0))
    assert grown is not None
    assert grown.counts == (0.0, 0.0, 1.0, 1.0, 2.0, 2.0)
    assert grown.total == pytest.approx(3.7)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (None, histogram(0.2)),
        (histogram(0.2), None),
        (histogram(0.2, 0.3), histogram(0.2)),
        (histogram(0.2), histogram(0.2, bounds=(1.0,))),
    ],
)
def test_growth_across_a_reset_or_other_bounds_is_unknown(first, last):
    assert growth(first, last) is None


def test_merging_adds_buckets():
    merged = merge([histogram(0.2), histogram(0.7, 3.0)])
    assert merged is not None
    assert (merged.counts, merged.total) == ((0.0, 1.0, 2.0, 2.0, 3.0, 3.0), pytest.approx(3.9))


def test_merging_different_bounds_keeps_the_common_ones():
    merged = merge([histogram(0.2, bounds=(0.5, 1.0)), histogram(0.7, bounds=(1.0, 2.0))])
    assert merged is not None
    assert (merged.bounds, merged.counts) == ((1.0, float("inf")), (2.0, 2.0))
    assert merge([]) is None

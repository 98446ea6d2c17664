import pytest

from kvis_operator.scaling.demand import DemandRing, bucket_width

M = 1800.0
NOW = 60.0 * 1000


def ring(*needs: tuple[float, float]) -> DemandRing:
    made = DemandRing()
    for at, need in needs:
        made = made.recorded(need, now=at, width=60.0)
    return made


def test_nothing_remembered_is_unknown():
    assert DemandRing().floor(M, now=NOW) is None
    assert DemandRing().coverage(M, now=NOW) == 0.0
    assert DemandRing().held_until(1.0, M, now=NOW) is None


def test_the_floor_is_the_highest_need_within_the_memory():
    assert ring((NOW, 2.5), (NOW + 600, 4.2), (NOW + 1200, 1.0)).floor(M, now=NOW + 1200) == 4.2


def test_a_need_is_forgotten_after_the_memory():
    made = ring((NOW, 9.0), (NOW + 60, 1.0))
    assert made.floor(M, now=NOW + 1859) == 9.0
    assert made.floor(M, now=NOW + 1860) == 1.0


def test_the_higher_need_of_one_bucket_counts():
    assert ring((NOW, 3.0), (NOW + 15, 2.0), (NOW + 30, 2.5)).values == (3.0,)


def test_gaps_are_unknown_and_not_covered():
    made = ring(*[(NOW + 60 * i, 1.0) for i in range(31) if i % 10 != 5])
    assert made.values[5] is None
    assert made.coverage(M, now=NOW + 30 * 60) == pytest.approx(28 / 31)


def test_coverage_grows_with_what_was_observed():
    assert ring((NOW, 1.0)).coverage(M, now=NOW) == pytest.approx(1 / 31)
    assert ring(*[(NOW + 60 * i, 1.0) for i in range(31)]).coverage(M, now=NOW + 30 * 60) == 1.0


def test_another_bucket_width_starts_anew():
    made = ring((NOW, 5.0)).recorded(1.0, now=NOW + 15, width=15.0)
    assert (made.values, made.width) == ((1.0,), 15.0)


def test_a_clock_set_back_starts_anew():
    assert ring((NOW, 5.0), (NOW - 120, 1.0)).values == (1.0,)


def test_no_more_than_four_hours_are_kept():
    made = ring(*[(NOW + 60 * i, float(i)) for i in range(300)])
    assert len(made.values) == 240
    assert made.values[-1] == 299.0
    assert made.floor(0.0, now=NOW + 299 * 60) == 299.0


def test_a_long_gap_is_not_filled_in_memory():
    assert ring((NOW, 5.0), (NOW + 1e9, 1.0)).values == (1.0,)


def test_held_until_the_newest_high_need_is_forgotten():
    made = ring((NOW, 5.0), (NOW + 60, 5.0), (NOW + 120, 1.0))
    assert made.held_until(4.0, M, now=NOW + 120) == NOW + 120 + 1800
    assert made.held_until(5.0, M, now=NOW + 120) is None


def test_no_memory_is_the_current_bucket_alone():
    made = ring((NOW, 5.0), (NOW + 60, 1.0))
    assert made.floor(0.0, now=NOW + 60) == 1.0
    assert made.coverage(0.0, now=NOW + 60) == 1.0


@pytest.mark.parametrize(
    ("memory", "width"), [(1800.0, 60.0), (14400.0, 60.0), (90.0, 15.0), (300.0, 30.0), (0.0, 15.0)]
)
def test_bucket_width(memory, width):
    assert bucket_width(memory, 15.0) == width


def test_needs_are_rounded_to_keep_the_status_small():
    assert ring((NOW, 1.23456789)).values == (1.235,)

"""Bootstrap, Holm and hypervolume on numbers that can be checked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvis_sim.bench.statistics import holm, hypervolume, paired_bootstrap


def test_interval_of_equal_differences_has_no_width() -> None:
    found = paired_bootstrap([2.0] * 10, seed=1, samples=200)
    assert found is not None
    assert (found.mean, found.low, found.high, found.pairs) == (2.0, 2.0, 2.0, 10)
    assert found.p_value < 0.02


def test_no_pairs_give_no_statement() -> None:
    assert paired_bootstrap([], seed=1) is None


def test_one_pair_proves_nothing() -> None:
    found = paired_bootstrap([5.0], seed=1, samples=100)
    assert found is not None
    assert found.p_value == 1.0


def test_interval_covers_the_mean_and_the_same_seed_gives_the_same() -> None:
    values = [1.0, -2.0, 3.0, 0.5, -0.5, 2.0]
    first, second = (paired_bootstrap(values, seed=7, samples=500) for _ in range(2))
    assert first == second
    assert first is not None
    assert first.low <= first.mean <= first.high


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value(p_values: dict[str, float]) -> None:
    adjusted = holm(p_values)
    assert all(p_values[name] <= adjusted[name] <= 1.0 for name in p_values)


def test_hypervolume_is_the_area_under_the_staircase() -> None:
    assert hypervolume([(2.0, 0.5), (4.0, 1.0)], worst_cost=10.0) == pytest.approx(2 * 0.5 + 6 * 1.0)


def test_dominated_points_add_nothing() -> None:
    assert hypervolume([(2.0, 0.9), (3.0, 0.5)], worst_cost=4.0) == pytest.approx(
        hypervolume([(2.0, 0.9)], worst_cost=4.0)
    )

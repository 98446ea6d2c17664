import pytest

from kvis_operator.scaling.flap import FlapGuard

HOUR = 3600.0
MEMORY = 600.0


def after(*moves: tuple[float, int]) -> FlapGuard:
    guard = FlapGuard()
    for at, direction in moves:
        guard = guard.changed(direction, now=at, memory=MEMORY)
    return guard


def test_moves_in_one_direction_are_no_reversals():
    assert after((0, 1), (60, 1), (120, 1)) == FlapGuard(direction=1, moved_at=120)


def test_two_reversals_in_an_hour_are_within_budget():
    guard = after((0, 1), (600, -1), (2401, 1))
    assert (guard.factor, guard.reversals, guard.eased_at) == (1, (600, 2401), 2401)


def test_a_third_reversal_within_an_hour_doubles_the_memory():
    guard = after((0, 1), (600, -1), (2401, 1), (3000, -1))
    assert (guard.factor, guard.reversals, guard.eased_at) == (2, (), 3000)


def test_reversals_an_hour_apart_do_not_add_up():
    assert after((0, 1), (600, -1), (2401, 1), (600 + HOUR, -1)).factor == 1


@pytest.mark.parametrize(("later", "factor"), [(MEMORY / 2, 2), (MEMORY / 2 + 1, 1)])
def test_growing_again_within_half_a_memory_of_shrinking_doubles_it(later, factor):
    guard = after((0, -1), (later, 1))
    assert (guard.factor, guard.direction, guard.moved_at) == (factor, 1, later)


def test_shrinking_soon_after_growing_is_not_regretted():
    assert after((0, 1), (600, -1)).factor == 1


def test_the_memory_halves_after_six_quiet_hours():
    guard = FlapGuard(1, None, (), 4, 0.0)
    assert guard.eased(now=6 * HOUR - 1).factor == 4
    eased = guard.eased(now=6 * HOUR)
    assert (eased.factor, eased.eased_at) == (2, 6 * HOUR)
    assert eased.eased(now=7 * HOUR).factor == 2


def test_a_calm_guard_has_nothing_to_ease():
    assert FlapGuard(1, None, (5.0,), 1, 0.0).eased(now=1e9).factor == 1
    assert FlapGuard(1, None, (), 2, None).eased(now=1e9).factor == 2


def test_the_memory_is_multiplied_up_to_its_limit_and_never_shortened():
    assert FlapGuard(factor=4).memory(1800.0, 14400.0) == 7200.0
    assert FlapGuard(factor=64).memory(1800.0, 14400.0) == 14400.0
    assert FlapGuard(factor=1).memory(20000.0, 14400.0) == 20000.0


def test_the_factor_has_a_limit():
    guard = FlapGuard(1, None, (), 64, 0.0)
    for i in range(6):
        guard = guard.changed(-guard.direction, now=float(i), memory=MEMORY)
    assert guard.factor == 64

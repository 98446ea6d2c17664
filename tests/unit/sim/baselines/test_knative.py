"""The KPA port against Knative's own autoscaler tests (names in the comments are theirs)."""

import pytest

from kvis_sim.baselines.knative import KnativePodAutoscaler, KpaSettings, KpaState, desired_pods
from kvis_sim.baselines.reading import FleetReading, PodReading


def wanted(
    settings: KpaSettings, state: KpaState, stable: float, panic: float, ready: int, now: float
) -> int:
    return desired_pods(settings, state, stable=stable, panic=panic, ready=ready, now=now)


@pytest.mark.parametrize(
    ("target", "stable", "panic", "ready", "expected"),
    [
        (10, 50, 10, 1, 5),  # StableModeIncreaseWithConcurrencyDefault
        (10, 100, 10, 1, 10),
        (10, 100, 100, 8, 10),  # StableModeDecrease
        (10, 50, 50, 8, 5),
    ],
)
def test_stable_mode_follows_the_stable_window(
    target: float, stable: float, panic: float, ready: int, expected: int
) -> None:
    settings = KpaSettings(target, max_scale_up_rate=10, max_scale_down_rate=10)
    assert wanted(settings, KpaState(), stable, panic, ready, now=0) == expected


def test_panic_ends_one_stable_window_after_the_last_surge() -> None:  # UnpanicAfterSlowIncrease
    settings = KpaSettings(1, max_scale_up_rate=10, max_scale_down_rate=10)
    state = KpaState()
    assert wanted(settings, state, 11, 25, ready=10, now=0) == 25
    assert state.panic_since == 0
    assert wanted(settings, state, 30, 41, ready=40, now=30) == 41
    assert state.panic_since == 0
    assert wanted(settings, state, 50, 56, ready=55, now=62) == 50
    assert state.panic_since is None


def test_surge_extends_panic() -> None:  # ExtendPanicWindow
    settings = KpaSettings(1, max_scale_up_rate=10, max_scale_down_rate=10)
    state = KpaState()
    assert wanted(settings, state, 11, 25, ready=10, now=0) == 25
    assert wanted(settings, state, 30, 80, ready=40, now=30) == 80
    assert state.panic_since == 30


def test_panic_never_shrinks() -> None:
    settings = KpaSettings(1, max_scale_up_rate=10, max_scale_down_rate=10)
    state = KpaState()
    wanted(settings, state, 11, 25, ready=10, now=0)
    assert wanted(settings, state, 5, 5, ready=25, now=20) == 25


def test_scale_rates_bound_one_step() -> None:
    settings = KpaSettings(1, max_scale_up_rate=2, max_scale_down_rate=2)
    assert wanted(settings, KpaState(), 100, 0, ready=3, now=0) == 6
    assert wanted(settings, KpaState(), 1, 1, ready=9, now=0) == 4


def fleet(at: float, desired: int, in_flight: float | None) -> FleetReading:
    pods = tuple(
        PodReading(f"p{i}", ready=True, running=in_flight, waiting=None if in_flight is None else 0.0)
        for i in range(desired)
    )
    return FleetReading(at=at, desired=desired, pods=pods, kv_capacity_tokens=1.0)


def test_scale_down_delay_holds_the_highest_wish() -> None:
    scaler = KnativePodAutoscaler(KpaSettings(10, max_scale_down_rate=10, scale_down_delay=300))
    for at in range(0, 60, 2):
        scaler.step(fleet(at, 4, 10))
    assert scaler.step(fleet(122, 4, 0)) == 4
    assert scaler.step(fleet(424, 4, 0)) == 1


def test_failed_scrapes_keep_the_last_windows() -> None:
    scaler = KnativePodAutoscaler(KpaSettings(10))
    scaler.step(fleet(0, 4, 10))
    assert scaler.step(fleet(2, 4, None)) == 4


def test_no_data_is_no_decision() -> None:
    assert KnativePodAutoscaler(KpaSettings(10)).step(fleet(0, 4, None)) == 4

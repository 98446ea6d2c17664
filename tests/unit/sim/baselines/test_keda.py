"""KEDA's polling and its reading of an empty result."""

from kvis_sim.baselines import hpa
from kvis_sim.baselines.keda import ScaledObject
from kvis_sim.baselines.reading import FleetReading, PodReading


def fleet(at: float, desired: int, in_flight: list[float | None]) -> FleetReading:
    pods = tuple(
        PodReading(f"p{i}", ready=True, running=value, waiting=None if value is None else 0.0)
        for i, value in enumerate(in_flight)
    )
    return FleetReading(at=at, desired=desired, pods=pods, kv_capacity_tokens=1.0)


def test_value_is_refreshed_every_thirty_seconds_only() -> None:
    scaler = ScaledObject(hpa.in_flight, target=32)
    assert scaler.step(fleet(0, 2, [32, 32])) == 2
    assert scaler.step(fleet(15, 2, [64, 64])) == 2
    assert scaler.step(fleet(30, 2, [64, 64])) == 4


def test_sum_over_the_service_ignores_readiness() -> None:
    scaler = ScaledObject(hpa.in_flight, target=32)
    assert scaler.step(fleet(0, 4, [96, 96])) == 6


def test_empty_result_reads_as_zero_by_default_and_shrinks_after_the_window() -> None:
    scaler = ScaledObject(hpa.in_flight, target=32, down_window=300)
    assert scaler.step(fleet(0, 4, [32, 32, 32, 32])) == 4
    replicas = [scaler.step(fleet(at, 4, [None] * 4)) for at in range(30, 345, 15)]
    assert replicas[-1] == 1


def test_empty_result_holds_when_nulls_are_not_ignored() -> None:
    scaler = ScaledObject(hpa.in_flight, target=32, down_window=300, ignore_null_values=False)
    assert [scaler.step(fleet(at, 4, [None] * 4)) for at in range(0, 600, 15)] == [4] * 40

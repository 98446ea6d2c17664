"""AIBrix's APA and KPA against their own test tables (the names are theirs)."""

import pytest

from kvis_sim.baselines.aibrix import AibrixKpa, Apa, ApaSettings, apa_replicas
from kvis_sim.baselines.reading import FleetReading, PodReading


@pytest.mark.parametrize(
    ("pods", "average", "up", "down", "expected"),
    [
        pytest.param(2, 45, 2, 2, 3, id="basic_scale_up"),
        pytest.param(2, 35, 2, 2, 3, id="scale_up_upto_ceiling"),
        pytest.param(2, 90, 2, 2, 4, id="scale_up_upto_max_scale_up"),
        pytest.param(2, 90, 2.5, 2, 5, id="scale_up_upto_max_scale_up_ceiling"),
        pytest.param(6, 20, 2, 2, 4, id="basic_scale_down"),
        pytest.param(6, 18, 2, 2, 4, id="scale_down_upto_ceiling"),
        pytest.param(6, 10, 2, 2, 3, id="scale_down_upto_max_scale_down"),
        pytest.param(6, 5, 2, 2.5, 2, id="scale_down_upto_max_scale_down_floor"),
        pytest.param(2, 33, 2, 2, 2, id="no_scaling_as_within_up_tolerance"),
        pytest.param(2, 27, 2, 2, 2, id="no_scaling_as_within_down_tolerance"),
    ],
)
def test_apa(pods: float, average: float, up: float, down: float, expected: int) -> None:
    settings = ApaSettings(30, max_up_rate=up, max_down_rate=down)
    assert apa_replicas(settings, pods=pods, average=average) == expected


def fleet(at: float, usages: list[float | None]) -> FleetReading:
    pods = tuple(
        PodReading(f"p{i}", ready=True, running=1, waiting=0, kv_usage=usage)
        for i, usage in enumerate(usages)
    )
    return FleetReading(at=at, desired=len(usages), pods=pods, kv_capacity_tokens=1.0)


def test_apa_waits_out_the_cooldown_before_shrinking() -> None:
    scaler = Apa(ApaSettings(0.5))
    assert scaler.step(fleet(0, [0.5, 0.5, 0.5, 0.5])) == 4
    assert scaler.step(fleet(150, [0.1, 0.1, 0.1, 0.1])) == 4
    assert scaler.step(fleet(300, [0.1, 0.1, 0.1, 0.1])) == 2


def test_apa_is_stuck_on_one_pod_that_does_not_answer() -> None:
    assert Apa(ApaSettings(0.5)).step(fleet(0, [0.9, 0.9, None])) == 3


def test_kpa_as_coded_can_never_ask_for_more_than_two_pods() -> None:
    scaler = AibrixKpa(target=0.5)
    assert max(scaler.step(fleet(at, [1.0, 1.0, 1.0])) for at in range(0, 600, 15)) == 2


def test_kpa_with_the_missing_factor_follows_the_total() -> None:
    scaler = AibrixKpa(target=0.5, times_pods=True)
    assert scaler.step(fleet(0, [1.0, 1.0, 1.0])) == 6

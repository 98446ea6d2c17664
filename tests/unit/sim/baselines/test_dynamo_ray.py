"""Dynamo's easy thresholds and Ray Serve's rule, each by the examples of their own sources."""

import pytest

from kvis_sim.baselines.dynamo import LATENCY, THROUGHPUT, DynamoEasy, easy_decision
from kvis_sim.baselines.ray import RayServe, wanted_replicas
from kvis_sim.baselines.reading import FleetReading, PodReading


@pytest.mark.parametrize(
    ("utilisations", "thresholds", "expected"),
    [
        ((0.5, 1.1), THROUGHPUT, 3),  # any worker over 100 %
        ((0.5, 0.59), THROUGHPUT, 1),  # all under 60 %
        ((0.5, 0.61), THROUGHPUT, 2),
        ((1.0, 1.0), THROUGHPUT, 2),  # not *over* the threshold
        ((0.41, 0.0), LATENCY, 3),
        ((0.09, 0.05), LATENCY, 1),
    ],
)
def test_easy_thresholds(
    utilisations: tuple[float, ...], thresholds: tuple[float, float], expected: int
) -> None:
    assert easy_decision(utilisations, workers=2, thresholds=thresholds) == expected


def test_easy_never_takes_the_last_worker() -> None:
    assert easy_decision((0.0,), workers=1, thresholds=THROUGHPUT) == 1


def fleet(at: float, desired: int, in_flight: list[tuple[float, float]], loading: int = 0) -> FleetReading:
    pods = [
        PodReading(f"p{i}", ready=True, running=running, waiting=waiting, kv_usage=0.5)
        for i, (running, waiting) in enumerate(in_flight)
    ]
    pods += [PodReading(f"new{i}", ready=False) for i in range(loading)]
    return FleetReading(
        at=at, desired=desired, pods=tuple(pods), kv_capacity_tokens=100_000, input_tokens=10_000
    )


def test_easy_counts_queued_prefill_tokens() -> None:
    assert DynamoEasy().step(fleet(0, 2, [(5, 0), (5, 6)])) == 3


def test_easy_only_observes_while_scaling() -> None:
    assert DynamoEasy().step(fleet(0, 3, [(5, 0), (5, 6)], loading=1)) == 3


@pytest.mark.parametrize(
    ("ongoing", "replicas", "factor", "expected"),
    [
        (20, 10, 1.0, 20),  # twice the target: twice the replicas
        (5, 10, 1.0, 5),
        (40, 10, 0.5, 25),  # damped
        (9, 10, 0.1, 9),  # a stuck shrink still goes down by one
        (10, 10, 1.0, 10),
    ],
)
def test_ray_error_ratio(ongoing: float, replicas: int, factor: float, expected: int) -> None:
    assert wanted_replicas(ongoing, target=1, replicas=replicas, factor=factor) == expected


def test_ray_grows_after_thirty_seconds_of_agreement() -> None:
    scaler = RayServe(target=8)
    assert [scaler.step(fleet(at, 1, [(16, 0)])) for at in (0, 10, 20, 30)] == [1, 1, 1, 2]


def test_ray_starts_again_after_one_contrary_tick() -> None:
    scaler = RayServe(target=8, look_back=10)
    for at in range(0, 590, 10):
        assert scaler.step(fleet(at, 2, [(2, 0), (2, 0)])) == 2
    scaler.step(fleet(590, 2, [(8, 0), (8, 0)]))
    assert scaler.step(fleet(600, 2, [(2, 0), (2, 0)])) == 2
    assert scaler.step(fleet(1190, 2, [(2, 0), (2, 0)])) == 2
    assert scaler.step(fleet(1200, 2, [(2, 0), (2, 0)])) == 1

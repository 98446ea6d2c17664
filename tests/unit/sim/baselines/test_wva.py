"""WVA's analysers against the tables of its own tests and documentation."""

import pytest

from kvis_sim.baselines.reading import FleetReading, PodReading
from kvis_sim.baselines.wva_v1 import ReplicaPeak, SaturationThresholds, WvaV1, analyse
from kvis_sim.baselines.wva_v2 import TokenThresholds, WvaV2, output_bucket, replicas_for

LIMITS = SaturationThresholds()


@pytest.mark.parametrize(
    ("peaks", "grow"),
    [
        ([(0.75, 2), (0.76, 2)], True),  # low KV spare: 0.045 < 0.1
        ([(0.50, 3), (0.50, 3)], True),  # low queue spare: 2 < 3
        ([(0.50, 1), (0.50, 1)], False),  # healthy
        ([(0.85, 2), (0.50, 6), (0.90, 7)], True),  # all saturated: spare 0
    ],
)
def test_v1_grows_when_average_spare_is_low(peaks: list[tuple[float, float]], grow: bool) -> None:
    assert analyse([ReplicaPeak(*peak) for peak in peaks], LIMITS).grow is grow


@pytest.mark.parametrize(
    ("peaks", "safe"),
    [
        ([(0.20, 1), (0.30, 1), (0.25, 1)], True),
        ([(0.70, 2), (0.75, 2)], False),
        ([(0.50, 2)], False),  # only one unsaturated replica
    ],
)
def test_v1_shrinks_only_if_the_respread_load_leaves_both_spares(
    peaks: list[tuple[float, float]], safe: bool
) -> None:
    assert analyse([ReplicaPeak(*peak) for peak in peaks], LIMITS).shrink_safe is safe


def test_v1_ignores_saturated_replicas_in_the_average() -> None:
    found = analyse([ReplicaPeak(0.85, 2), ReplicaPeak(0.50, 6), ReplicaPeak(0.60, 2)], LIMITS)
    assert (found.unsaturated, found.spare_kv, found.spare_queue) == (1, pytest.approx(0.2), 3)


def fleet(at: float, pods: list[tuple[float, float]], loading: int = 0, output: float = 200) -> FleetReading:
    ready = [
        PodReading(f"p{i}", ready=True, running=9, waiting=waiting, kv_usage=kv)
        for i, (kv, waiting) in enumerate(pods)
    ]
    ready += [PodReading(f"new{i}", ready=False) for i in range(loading)]
    return FleetReading(
        at=at,
        desired=len(ready),
        pods=tuple(ready),
        kv_capacity_tokens=100_000,
        input_tokens=1000,
        output_tokens=output,
    )


def test_v1_acts_by_one_and_freezes_in_transition() -> None:
    assert WvaV1().step(fleet(0, [(0.75, 2), (0.76, 2)])) == 3
    assert WvaV1().step(fleet(0, [(0.75, 2), (0.76, 2)], loading=1)) == 3
    assert WvaV1().step(fleet(0, [(0.2, 0), (0.3, 0), (0.25, 0)])) == 2


def test_v1_remembers_the_peak_of_a_minute() -> None:
    scaler = WvaV1()
    scaler.step(fleet(0, [(0.79, 0), (0.79, 0)]))
    assert scaler.step(fleet(30, [(0.2, 0), (0.2, 0)])) == 3
    assert scaler.step(fleet(61, [(0.2, 0), (0.2, 0)])) == 1


@pytest.mark.parametrize(
    ("demand", "ready", "pending", "expected"),
    [
        (170_000, 2, 0, 3),  # 200k needed at 85 % against 160k of supply
        (340_000, 2, 0, 5),
        (340_000, 2, 3, 5),  # pending counted
        (100_000, 4, 0, 2),  # 320k - 142.9k spare = 2.2 replicas
        (120_000, 2, 0, 2),  # between the thresholds
        (10_000, 2, 1, 3),  # no shrink while pods are pending
    ],
)
def test_v2_moves_by_whole_replicas_of_tokens(demand: float, ready: int, pending: int, expected: int) -> None:
    found = replicas_for(
        demand=demand, per_replica=80_000, ready=ready, pending=pending, limits=TokenThresholds()
    )
    assert found == expected


@pytest.mark.parametrize(
    ("tokens", "bucket"),
    [(99, "short"), (100, "medium"), (499, "medium"), (500, "long")],
)
def test_v2_buckets_by_output_length(tokens: float, bucket: str) -> None:
    assert output_bucket(tokens) == bucket


def test_v2_learns_the_knee_when_requests_queue() -> None:
    scaler = WvaV2()
    assert scaler.step(fleet(0, [(0.30, 6), (0.30, 6)])) == 3  # knee 30k: 84.7k needed of 60k
    assert scaler.step(fleet(30, [(0.29, 0), (0.29, 0)])) == 3  # the learnt knee holds: 58k / 0.85 > 60k
    assert scaler.step(fleet(60, [(0.20, 0), (0.20, 0)], output=600)) == 1  # another bucket knows nothing

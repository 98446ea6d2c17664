"""The HPA port against the worked examples of the Kubernetes docs and of its replica calculator's tests."""

import pytest

from kvis_sim.baselines import hpa
from kvis_sim.baselines.reading import FleetReading, PodReading


def metrics(*values: float, unready: int = 0, missing: int = 0) -> hpa.PodMetrics:
    return hpa.PodMetrics(
        {f"pod-{index}": value for index, value in enumerate(values)},
        unready=[f"unready-{index}" for index in range(unready)],
        missing=[f"missing-{index}" for index in range(missing)],
    )


def fleet(at: float, desired: int, waiting: list[float | None], loading: int = 0) -> FleetReading:
    pods = [
        PodReading(f"p{i}", ready=True, running=8, waiting=value, kv_usage=0.3)
        for i, value in enumerate(waiting)
    ]
    pods += [PodReading(f"new{i}", ready=False) for i in range(loading)]
    return FleetReading(at=at, desired=desired, pods=tuple(pods), kv_capacity_tokens=480_000)


@pytest.mark.parametrize(
    ("values", "target", "current", "expected"),
    [
        ((200.0,), 100.0, 1, 2),  # the documentation: 200 m against 100 m doubles
        ((50.0, 50.0), 100.0, 2, 1),  # 50 m against 100 m halves
        ((20.0, 10.0, 30.0), 15.0, 3, 4),  # ScaleUpCM
        ((12.0,) * 5, 20.0, 5, 3),  # ScaleDownCM
        ((20.0, 21.0, 21.0), 20.0, 3, 3),  # ToleranceCM
        ((300.0, 500.0, 700.0), 300.0, 3, 5),  # ScaleUp
    ],
)
def test_proportional_rule(values: tuple[float, ...], target: float, current: int, expected: int) -> None:
    assert hpa.per_pod_replicas(metrics(*values), target=target, current=current) == expected


@pytest.mark.parametrize(
    ("grouped", "target", "current", "expected"),
    [
        (metrics(500.0, 700.0, unready=1), 300.0, 3, 4),  # ScaleUpUnreadyLessScale
        (metrics(400.0, unready=2), 300.0, 3, 3),  # ScaleUpUnreadyNoScale: the direction flips
        (metrics(1000.0, missing=1), 1000.0, 2, 2),  # MissingMetricsNoChangeEq
        (metrics(1900.0, missing=1), 1000.0, 2, 2),  # MissingMetricsNoChangeGt
        (metrics(600.0, missing=1), 1000.0, 2, 2),  # MissingMetricsNoChangeLt
        (metrics(100.0, 450.0, unready=1), 500.0, 3, 2),  # unready pods do not damp a shrink
        (metrics(100.0, 100.0, 100.0, unready=1), 500.0, 4, 1),
        (metrics(100.0, missing=1), 1000.0, 2, 2),  # a missing pod counts as on target when shrinking
    ],
)
def test_missing_and_unready_pods_damp_a_change(
    grouped: hpa.PodMetrics, target: float, current: int, expected: int
) -> None:
    assert hpa.per_pod_replicas(grouped, target=target, current=current) == expected


def test_no_metric_at_all_is_no_answer() -> None:
    assert hpa.per_pod_replicas(metrics(missing=3), target=1.0, current=3) is None


@pytest.mark.parametrize(
    ("total", "target", "current", "expected"),
    [
        (8600.0, 4400.0, 1, 2),  # ScaleUpExternal
        (8600.0, 2150.0, 3, 4),  # ScaleUpPerPodCMExternal
        (8600.0, 2867.0, 5, 3),  # ScaleDownPerPodCMExternal
        (8600.0, 2150.0, 4, 4),
        (9000.0, 2150.0, 4, 4),  # within tolerance
    ],
)
def test_external_metric_divides_the_total(total: float, target: float, current: int, expected: int) -> None:
    assert hpa.external_replicas(total, target=target, current=current) == expected


@pytest.mark.parametrize(
    ("start", "desired", "expected"), [(1, 16, 5), (4, 16, 8), (8, 32, 16), (6, 8, 8), (10, 15, 15)]
)
def test_default_policies_allow_doubling_or_four_pods(start: int, desired: int, expected: int) -> None:
    assert hpa.limited_up(desired, replicas_at_period_start=start) == expected


def test_shrinks_only_to_the_highest_wish_of_the_window() -> None:
    scaler = hpa.HorizontalPodAutoscaler((hpa.Metric(hpa.waiting, 10),), down_window=300)
    assert scaler.step(fleet(0, 4, [10, 10, 10, 10])) == 4
    for at in range(15, 300, 15):
        assert scaler.step(fleet(at, 4, [1, 1, 1, 1])) == 4
    assert scaler.step(fleet(300, 4, [1, 1, 1, 1])) == 1


def test_pods_that_still_load_damp_growth() -> None:
    alone = hpa.HorizontalPodAutoscaler((hpa.Metric(hpa.waiting, 5),))
    loading = hpa.HorizontalPodAutoscaler((hpa.Metric(hpa.waiting, 5),))
    assert alone.step(fleet(0, 2, [10, 10])) == 4
    assert loading.step(fleet(0, 4, [10, 10], loading=2)) == 4


def test_largest_of_several_metrics_wins() -> None:
    scaler = hpa.HorizontalPodAutoscaler((hpa.Metric(hpa.waiting, 5), hpa.Metric(hpa.kv_usage, 0.1)))
    assert scaler.step(fleet(0, 2, [1, 1])) == 6


def test_a_failing_metric_blocks_shrinking_but_not_growing() -> None:
    scaler = hpa.HorizontalPodAutoscaler((hpa.Metric(hpa.waiting, 5), hpa.Metric(hpa.kv_usage, 0.1)))
    assert scaler.step(fleet(0, 2, [None, None])) == 6
    blocked = hpa.HorizontalPodAutoscaler((hpa.Metric(hpa.waiting, 5), hpa.Metric(hpa.kv_usage, 0.9)))
    for at in range(0, 900, 15):
        assert blocked.step(fleet(at, 2, [None, None])) == 2


def test_result_stays_within_bounds() -> None:
    scaler = hpa.HorizontalPodAutoscaler((hpa.Metric(hpa.waiting, 1),))
    assert scaler.step(fleet(0, 10, [90.0] * 10)) == 16

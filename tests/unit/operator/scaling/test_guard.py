from typing import Any

import pytest

from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.guard import Guard, Symptoms, symptoms
from observations import NOON, TICK, a_pod, an_observation, pods

CALM = Symptoms(crowded=False, crowded_by_memory=False, slo_missed=False, preempting=False)


def seen(*, busy_share: float | None = 0.8, **observation: Any) -> Symptoms:
    obs = an_observation(**observation)
    return symptoms(obs, ttft_slo=2.0, tpot_slo=0.1, busy_share=busy_share)


def alarm_after(seconds: float, symptom: Symptoms, guard: Guard | None = None) -> Reason | None:
    guard = (guard or Guard()).seen(symptom, now=NOON)
    return guard.seen(symptom, now=NOON + seconds).alarm(symptom, now=NOON + seconds, tick=TICK)


@pytest.mark.parametrize(("crowded_pods", "verdict"), [(0, False), (1, False), (2, True), (6, True)])
def test_a_third_of_the_pods_waiting_is_crowded(crowded_pods, verdict):
    ready = (*pods(6 - crowded_pods), *(a_pod(f"w{i}", waiting=3.0) for i in range(crowded_pods)))
    assert seen(pods=ready).crowded is verdict


def test_fewer_than_three_waiting_is_not_crowded():
    assert seen(pods=pods(2, waiting=2.9)).crowded is False


def test_a_full_cache_is_crowded_by_memory():
    verdict = seen(pods=pods(2, kv_usage=0.951))
    assert (verdict.crowded, verdict.crowded_by_memory) == (True, True)
    assert seen(pods=pods(2, kv_usage=0.95)).crowded is False


def test_waiting_alone_is_not_for_memory():
    assert seen(pods=pods(2, waiting=5.0)).crowded_by_memory is False


def test_pods_without_a_fresh_sample_tell_nothing():
    assert seen(pods=pods(2, fresh=False, waiting=9.0)).crowded is None


@pytest.mark.parametrize(
    ("latency", "verdict"),
    [
        ({"ttft_p95_seconds": 2.1, "ttft_p95_at_least_seconds": 2.0}, True),
        ({"tpot_p95_seconds": 0.11, "tpot_p95_at_least_seconds": 0.1}, True),
        ({"ttft_p95_seconds": 2.0, "tpot_p95_seconds": 0.1}, False),
        ({"ttft_p95_seconds": None, "tpot_p95_seconds": None}, None),
        ({"ttft_p95_seconds": None, "tpot_p95_seconds": 0.2}, True),
    ],
)
def test_a_missed_objective(latency, verdict):
    assert seen(busy_share=0.9, **latency).slo_missed is verdict


def test_inside_the_bucket_of_the_objective_nobody_can_tell():
    wide = {"ttft_p95_seconds": 2.2, "ttft_p95_at_least_seconds": 1.0}
    assert seen(busy_share=0.9, tpot_p95_seconds=None, **wide).slo_missed is None
    assert seen(busy_share=0.9, tpot_p95_seconds=0.2, **wide).slo_missed is True


def test_no_objective_is_never_missed():
    obs = an_observation(ttft_p95_seconds=99.0, tpot_p95_seconds=9.0)
    assert symptoms(obs, ttft_slo=None, tpot_slo=None, busy_share=1.0).slo_missed is None


@pytest.mark.parametrize(
    ("busy_share", "waiting", "ttft", "tpot"),
    [
        (0.49, 0.0, False, False),  # idle replicas and no queue: not for want of replicas
        (0.5, 0.0, False, True),
        (0.84, 0.0, False, True),
        (0.85, 0.0, True, True),
        (0.1, 2.0, True, True),  # a request waits per pod
        (0.1, 1.9, False, False),
        (None, 0.0, True, True),
    ],
)
def test_a_miss_counts_where_a_replica_could_help(busy_share, waiting, ttft, tpot):
    load = {"busy_share": busy_share, "waiting": waiting}
    assert seen(ttft_p95_seconds=9.0, tpot_p95_seconds=None, **load).slo_missed is ttft
    assert seen(ttft_p95_seconds=None, tpot_p95_seconds=9.0, **load).slo_missed is tpot


@pytest.mark.parametrize(("per_request", "verdict"), [(None, None), (0.05, False), (0.06, True)])
def test_preemptions(per_request, verdict):
    assert seen(preemptions_per_request=per_request).preempting is verdict


@pytest.mark.parametrize(
    ("symptom", "patience", "reason"),
    [
        (Symptoms(True, False, False, False), 2 * TICK, Reason.BACKLOG),
        (Symptoms(True, True, False, False), 2 * TICK, Reason.MEMORY),
        (Symptoms(False, False, True, False), 120.0, Reason.SLO_GUARD),
        (Symptoms(False, False, False, True), 120.0, Reason.MEMORY),
    ],
)
def test_each_symptom_has_its_patience(symptom, patience, reason):
    assert alarm_after(patience, symptom) is reason
    assert alarm_after(patience - 1, symptom) is None


def test_an_unknown_symptom_neither_starts_nor_ends():
    unknown = Symptoms(crowded=None, crowded_by_memory=False, slo_missed=None, preempting=None)
    started = Guard(crowded_since=NOON, slo_since=NOON, preempting_since=NOON)
    after = started.seen(unknown, now=NOON + 5)
    assert (after.crowded_since, after.slo_since, after.preempting_since) == (NOON, NOON, NOON)
    assert Guard().seen(unknown, now=NOON).crowded_since is None


def test_a_symptom_that_ends_starts_over():
    guard = Guard(crowded_since=NOON, slo_since=NOON, preempting_since=NOON).seen(CALM, now=NOON + 5)
    assert (guard.crowded_since, guard.slo_since, guard.preempting_since) == (None, None, None)


def test_after_firing_it_is_quiet_for_a_start_time():
    guard = Guard(crowded_since=NOON).fired(now=NOON + 100, start_seconds=120.0)
    assert guard.crowded_since is None
    crowded = Symptoms(True, False, False, False)
    assert alarm_after(60.0, crowded, guard) is None
    assert alarm_after(220.0, crowded, guard) is Reason.BACKLOG


def test_firing_twice_without_the_model_agreeing_widens_the_margin():
    once = Guard().fired(now=NOON, start_seconds=120.0)
    assert (once.fires, once.margin) == (1, 0.0)
    twice = once.fired(now=NOON + 200, start_seconds=120.0)
    assert (twice.fires, twice.margin, twice.margin_at) == (0, 0.05, NOON + 200)


def test_the_model_agreeing_in_between_keeps_the_margin():
    guard = Guard().fired(now=NOON, start_seconds=1.0).agreed().fired(now=NOON + 9, start_seconds=1.0)
    assert (guard.fires, guard.margin) == (1, 0.0)


def test_the_margin_has_a_limit():
    guard = Guard(fires=1, margin=0.24).fired(now=NOON, start_seconds=1.0)
    assert guard.margin == 0.25


def test_the_margin_comes_back_by_a_point_an_hour():
    guard = Guard(margin=0.05, margin_at=NOON).seen(CALM, now=NOON + 3600)
    assert guard.margin == pytest.approx(0.04)
    assert Guard(margin=0.05, margin_at=NOON).seen(CALM, now=NOON + 1e6).margin == 0.0
    assert Guard(margin=0.05).seen(CALM, now=NOON).margin == 0.05


SLOW = Symptoms(crowded=False, crowded_by_memory=False, slo_missed=True, preempting=False)


def test_latency_from_before_help_arrived_is_no_alarm():
    awaited = Guard().awaiting(now=NOON)
    assert alarm_after(119.0, SLOW, awaited.seen(SLOW, now=NOON - 120.0)) is None


def test_latency_that_stays_after_help_arrived_is_one():
    awaited = Guard().awaiting(now=NOON)
    assert alarm_after(120.0, SLOW, awaited) is Reason.SLO_GUARD


def test_waiting_for_help_does_not_shorten_the_quiet_after_an_alarm():
    fired = Guard().fired(now=NOON, start_seconds=600.0)
    assert fired.awaiting(now=NOON).quiet_until == NOON + 600.0

from typing import Any

import pytest

from kvis_operator.scaling.capacity import Capacity, Mix
from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.need import Load, Need, memory_need, need, steady_rate, whole

MIX = Mix(1155.0, 211.0, 0.3)
CAPACITY = Capacity(93, 256, 4.907, 0.08982, 0.0267, feasible=True)
INFEASIBLE = Capacity(0, 256, 0.0, 0.2, 0.2, feasible=False)


def needed(
    *, cap: Capacity | None = CAPACITY, mix: Mix | None = MIX, spare: float = 0.0, **load: Any
) -> Need:
    defaults: dict[str, Any] = {
        "rate_15s": load.get("steady", 20.0),
        "steady": 20.0,
        "waiting": 0.0,
        "kv_tokens": 0.0,
        "tick_seconds": 15.0,
        "prefill_seconds_per_token": 0.000094,
    }
    return need(Load(**(defaults | load)), mix, cap, 480_000.0, rho_up=0.85, rho_down=0.75, spare=spare)


def test_worked_example_grows_to_five_and_shrinks_no_lower_than_six():
    wanted = needed(steady=20.0)
    assert (wanted.up, wanted.reason) == (5, Reason.CAPACITY)
    assert wanted.down == pytest.approx(5.434, rel=1e-3)
    assert whole(wanted.down) == 6


def test_memory_asks_for_more_than_compute():
    wanted = needed(steady=4.0, kv_tokens=1_000_000.0)
    assert (wanted.up, wanted.memory, wanted.reason) == (3, 3, Reason.MEMORY)
    assert wanted.down == pytest.approx(1_000_000 / (0.75 * 480_000))


def test_waiting_requests_pledge_memory():
    assert needed(steady=1.0, kv_tokens=400_000.0, waiting=100.0).memory == 2


def test_a_queue_asks_for_replicas_that_serve_it_in_a_minute():
    wanted = needed(steady=20.0, waiting=1000.0, kv_tokens=None)
    assert wanted.backlog == pytest.approx(1000 / (60 * 4.907))
    assert (wanted.up, wanted.reason) == (8, Reason.BACKLOG)


def test_a_queue_for_long_answers_asks_for_more_than_its_prompts_do():
    talkative = Capacity(30, 256, 0.46, 0.08982, 0.0267, feasible=True)
    wanted = needed(cap=talkative, mix=Mix(200.0, 2000.0, 0.0), steady=3.0, waiting=80.0)
    assert wanted.backlog == pytest.approx(2.9, abs=0.01)
    assert 80 * 200 * 0.000094 / 60 < 0.03


@pytest.mark.parametrize("cap", [None, INFEASIBLE])
def test_without_a_capacity_a_queue_is_worth_at_least_its_prompts(cap):
    assert needed(cap=cap, waiting=1000.0).backlog == pytest.approx(1000 * 808.5 * 0.000094 / 60)


def test_a_short_queue_is_not_worth_a_start():
    assert needed(steady=20.0, waiting=140.0, kv_tokens=None).up == 5
    assert needed(steady=20.0, waiting=160.0, kv_tokens=None).up == 6


def test_a_burst_counts_as_far_as_it_is_certain():
    wanted = needed(rate_15s=40.0, steady=20.0)
    assert wanted.rate == pytest.approx(40.0 - 3 * (40.0 / 15.0) ** 0.5)
    assert (wanted.up, wanted.reason) == (9, Reason.BURST)


def test_a_rise_within_half_is_no_burst():
    assert needed(rate_15s=30.0, steady=20.0).rate == 20.0


def test_counting_noise_of_a_slow_service_is_no_burst():
    noise = needed(rate_15s=0.6, steady=0.2)
    assert (noise.rate, noise.reason) == (0.2, Reason.CAPACITY)
    assert needed(rate_15s=1.2, steady=0.2).rate == pytest.approx(1.2 - 3 * (1.2 / 15.0) ** 0.5)


def test_a_slow_service_is_counted_over_three_minutes():
    assert steady_rate(0.5, 0.4) == pytest.approx(0.3 * 0.5 + 0.7 * 0.4)
    assert steady_rate(5.0 / 3.0, 0.4) == pytest.approx(5.0 / 3.0)
    assert steady_rate(20.0, 4.0) == 20.0


@pytest.mark.parametrize(("minute", "three", "steady"), [(None, 4.0, None), (0.5, None, 0.5)])
def test_an_unknown_rate_is_not_made_up_from_another(minute, three, steady):
    assert steady_rate(minute, three) == steady


def test_what_is_kept_carries_the_usual_peak():
    assert needed(usual_peak=25.0).keep == pytest.approx(25.0 / (0.85 * 4.907))
    assert needed(usual_peak=None).keep is None


def test_what_is_kept_goes_by_what_a_replica_usually_carries():
    now, usual = needed(usual_peak=25.0), needed(usual_peak=25.0, usually_carried=4.0)
    assert usual.keep == pytest.approx(25.0 / (0.85 * 4.0))
    assert (usual.up, usual.down) == (now.up, now.down)
    assert needed(cap=None, usual_peak=25.0, usually_carried=4.0).keep is None
    assert needed(cap=INFEASIBLE, usual_peak=25.0, usually_carried=4.0).keep is None


def test_no_requests_need_nothing_whatever_the_shape():
    wanted = needed(steady=0.0, cap=None, mix=None)
    assert (wanted.up, wanted.down) == (0, 0.0)


@pytest.mark.parametrize("cap", [None, INFEASIBLE])
def test_an_unknown_capacity_never_allows_shrinking(cap):
    wanted = needed(cap=cap, kv_tokens=900_000.0)
    assert wanted.down is None
    assert (wanted.up, wanted.reason) == (3, Reason.MEMORY)


def test_unknown_memory_never_allows_shrinking():
    wanted = needed(kv_tokens=None)
    assert (wanted.down, wanted.memory, wanted.up) == (None, None, 5)


def test_nothing_known_needs_nothing_known():
    wanted = needed(steady=None, kv_tokens=None)
    assert (wanted.up, wanted.down, wanted.rate) == (None, None, None)


def test_an_unknown_last_tick_leaves_the_minute():
    assert needed(rate_15s=None).rate == 20.0


def test_an_unknown_queue_pledges_nothing():
    wanted = needed(waiting=None, kv_tokens=400_000.0)
    assert (wanted.backlog, wanted.memory) == (None, 1)


@pytest.mark.parametrize(
    ("replicas", "count"), [(0.0, 0), (2.0, 2), (2.0000000001, 2), (2.01, 3), (1e300, 1_000_000)]
)
def test_whole_replicas(replicas, count):
    assert whole(replicas) == count


def test_memory_need_at_another_fill():
    assert memory_need(4 * 0.9 * 480_000, 480_000.0, 0.5) == 8
    assert memory_need(None, 480_000.0, 0.5) is None


class TestSpareReplicas:
    def test_they_come_on_top_of_what_the_load_needs(self):
        plain, wanted = needed(steady=20.0, usual_peak=25.0), needed(steady=20.0, usual_peak=25.0, spare=2.0)
        assert (wanted.up, wanted.reason) == (7, Reason.CAPACITY)
        assert wanted.down == pytest.approx((plain.down or 0.0) + 2.0)
        assert wanted.keep == pytest.approx((plain.keep or 0.0) + 2.0)

    def test_a_part_of_one_fills_up_what_rounding_leaves_free(self):
        assert needed(steady=20.0, spare=0.2).up == 5
        assert needed(steady=20.0, spare=0.21).up == 6

    def test_they_are_there_without_any_load(self):
        assert needed(steady=0.0, spare=2.0).up == 2

    def test_they_come_on_top_of_what_memory_needs(self):
        wanted = needed(steady=4.0, kv_tokens=1_000_000.0, spare=1.0)
        assert (wanted.up, wanted.memory, wanted.reason) == (4, 3, Reason.MEMORY)

    def test_a_queue_is_still_told_as_the_reason(self):
        wanted = needed(steady=20.0, waiting=1000.0, kv_tokens=None, spare=1.0)
        assert (wanted.up, wanted.reason) == (9, Reason.BACKLOG)

    def test_they_make_nothing_known_that_is_not(self):
        wanted = needed(steady=None, rate_15s=None, kv_tokens=None, spare=3.0)
        assert (wanted.up, wanted.down, wanted.keep) == (None, None, None)

"""The cluster's life: starting, draining, dying, counting cost; the same run twice."""

import pytest

from kvis_operator.signals.observation import PodPhase
from kvis_sim.cluster import simulate
from kvis_sim.controller import StaticReplicas
from kvis_sim.scenario import Fault, FaultKind, RouterKind
from kvis_sim.step_laws import Additive
from kvis_sim.workload import Request, TraceError
from sim_builders import Scripted, a_scenario, steadily


def test_the_same_scenario_and_seed_give_the_same_result():
    scenario = a_scenario(noise=0.1, speed_spread=0.1, router=RouterKind.CONSISTENT_HASH)
    results = [simulate(scenario, Scripted([(0, 2), (100, 4), (300, 1)]), seed=7) for _ in range(2)]
    assert results[0] == results[1]


def test_another_seed_gives_another_run():
    scenario = a_scenario(noise=0.1)
    first, second = (simulate(scenario, StaticReplicas(2), seed=seed) for seed in (1, 2))
    assert first.ttft != second.ttft or first.inter_token != second.inter_token


def test_two_controllers_under_one_seed_meet_the_same_start_times():
    def ready_times(controller):
        simulate(a_scenario(start_sigma=0.5), controller, seed=3)
        return {pod.uid: pod.ready_at - pod.created_at for pod in controller.ticks[-1][1] if pod.ready_at}

    early = ready_times(Scripted([(0, 2), (60, 4)]))
    late = ready_times(Scripted([(0, 2), (200, 4)]))
    assert early == pytest.approx(late)


def test_a_service_within_capacity_meets_its_objectives():
    result = simulate(a_scenario(), StaticReplicas(2), seed=1)
    assert result.attainment == 1.0
    assert (result.offered, result.unfinished, result.violation_minutes) == (1200, 0, 0)


def test_an_overloaded_service_misses_them():
    scenario = a_scenario(requests=steadily(40.0, 600.0), initial_replicas=1)
    result = simulate(scenario, StaticReplicas(1), seed=1)
    assert result.attainment < 0.5
    assert result.violation_minutes >= 8


def test_cost_is_counted_from_creation_and_to_the_end_of_the_traffic():
    controller = Scripted([(0, 2), (120, 3)])
    result = simulate(a_scenario(api_delay=0.0), controller, seed=1)
    assert result.replica_seconds == pytest.approx(2 * 600 + 480)


def test_the_warm_up_is_not_measured():
    result = simulate(a_scenario(warm_up=300.0), StaticReplicas(2), seed=1)
    assert (result.offered, result.replica_seconds) == (600, pytest.approx(2 * 300))
    assert result.prompt_tokens == pytest.approx(600 * 200, rel=0.02)


def test_a_starting_pod_is_pending_serves_nothing_and_becomes_ready_after_its_start_time():
    controller = Scripted([(0, 2), (60, 3)])
    simulate(a_scenario(start_sigma=0.0), controller, seed=1)
    new = "uid-0002"
    seen = {now: pod for now, pods, _ in controller.ticks for pod in pods if pod.uid == new}
    begin = controller.ticks[0][0]
    assert seen[begin + 75].phase is PodPhase.PENDING
    assert seen[begin + 75].ready_at is None
    assert seen[begin + 135].phase is PodPhase.READY
    assert seen[begin + 135].ready_at - seen[begin + 135].created_at == pytest.approx(60.0)
    assert all(new not in samples for now, _, samples in controller.ticks if now < begin + 120)


def test_scaling_in_drains_before_it_stops_and_loses_nothing():
    scenario = a_scenario(requests=steadily(1.0, 600.0, output=2000), initial_replicas=4)
    controller = Scripted([(0, 4), (300, 2)])
    result = simulate(scenario, controller, seed=1)
    phases = {pod.phase for _, pods, _ in controller.ticks for pod in pods}
    assert PodPhase.DRAINING in phases
    assert (result.lost, result.whole_run.in_flight) == (0, 0)
    assert result.timeline[-1].ready == result.timeline[-1].alive == 2


def test_requests_that_outlive_the_drain_grace_are_lost():
    scenario = a_scenario(requests=steadily(2.0, 600.0, output=4000), initial_replicas=2, drain_grace=5.0)
    result = simulate(scenario, Scripted([(0, 2), (300, 1)]), seed=1)
    assert result.lost > 0


def test_named_victims_go_first():
    controller = Scripted([(0, 3), (150, 2)], victims=("pod-0001",))
    simulate(a_scenario(initial_replicas=3), controller, seed=1)
    assert {pod.name for pod in controller.ticks[-1][1]} == {"pod-0000", "pod-0002"}


def test_pending_pods_are_withdrawn_before_serving_ones():
    controller = Scripted([(0, 2), (150, 4), (165, 2)])
    result = simulate(a_scenario(), controller, seed=1)
    assert {pod.name for pod in controller.ticks[-1][1]} == {"pod-0000", "pod-0001"}
    assert (result.actions, result.reversals) == (2, 1)


def test_wishes_outside_the_bounds_are_cut_to_them():
    result = simulate(a_scenario(max_replicas=3), Scripted([(0, 99)]), seed=1)
    assert max(point.desired for point in result.timeline) == 3


def test_requests_wait_at_the_router_while_nobody_is_ready():
    fault = Fault(FaultKind.NODE_LOST, start=100.0, duration=1.0, pods=2)
    result = simulate(a_scenario(faults=(fault,), start_sigma=0.0), StaticReplicas(2), seed=1)
    assert result.ttft.p99 > 40.0
    assert result.whole_run.in_flight == 0


def test_a_dead_node_loses_answers_under_way_and_its_pods_are_replaced():
    fault = Fault(FaultKind.NODE_LOST, start=100.0, duration=1.0, pods=1)
    controller = Scripted([(0, 2)])
    result = simulate(a_scenario(faults=(fault,)), controller, seed=1)
    assert result.lost > 0
    assert {pod.name for pod in controller.ticks[-1][1]} == {"pod-0001", "pod-0002"}


def test_a_request_larger_than_a_cache_is_rejected_and_counts_as_bad():
    def requests(_):
        return iter([Request(1.0, 200_000, 10), Request(2.0, 100, 10)])

    result = simulate(a_scenario(requests=requests), StaticReplicas(2), seed=1)
    assert (result.rejected, result.good, result.offered) == (1, 1, 2)


def test_requests_that_never_finish_count_as_bad():
    slow = Additive(a=50.0, p=0.0, d=0.0, c=0.0)
    result = simulate(a_scenario(law=slow, settle=10.0), StaticReplicas(2), seed=1)
    assert result.unfinished > 0
    assert result.good == 0


def test_a_lower_cap_holds_back_new_sequences_and_cancels_nothing():
    scenario = a_scenario(requests=steadily(20.0, 600.0, output=200), initial_replicas=1)
    controller = Scripted([(0, 1)], caps={"uid-0000": 4})
    result = simulate(scenario, controller, seed=1)
    late = controller.samples_of("uid-0000")[-1]
    assert late.max_num_active_seqs == 4
    assert max(s.running for s in controller.samples_of("uid-0000")[3:]) <= 4
    assert result.lost == 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([Request(2.0, 10, 10), Request(1.0, 10, 10)], "1.0 s follows one at 2.0 s"),
        ([Request(-1.0, 10, 10)], "times start at 0"),
        ([Request(1.0, 0, 10)], "0 prompt"),
        ([Request(1.0, 10, 0)], "0 output"),
    ],
)
def test_an_impossible_stream_is_refused_with_its_reason(rows, words):
    with pytest.raises(TraceError, match=words):
        simulate(a_scenario(requests=lambda _: iter(rows)), StaticReplicas(2), seed=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"min_replicas": 3, "max_replicas": 2}, "min_replicas <= max_replicas"),
        ({"initial_replicas": 99}, "initial_replicas 99 is outside"),
        ({"warm_up": 600.0}, "warm_up 600.0 s must be below duration 600.0 s"),
        ({"kv_capacity_tokens": 8}, "kv_capacity_tokens 8 holds no block"),
    ],
)
def test_a_contradictory_scenario_is_refused_naming_the_field(changes, words):
    with pytest.raises(ValueError, match=words):
        a_scenario(**changes)

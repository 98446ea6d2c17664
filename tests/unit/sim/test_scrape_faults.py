"""What a controller sees while something is wrong with the scrapes, the pods or itself."""

from itertools import pairwise

import pytest

from kvis_sim.cluster import simulate
from kvis_sim.controller import StaticReplicas
from kvis_sim.scenario import Fault, FaultKind
from sim_builders import Scripted, a_scenario, steadily

POD = "uid-0000"


def seen(kind, *, pods=1, **settings):
    """Samples of the first pod at 15 s ticks, with the fault from 150 s to 300 s."""
    fault = Fault(kind, start=149.0, duration=151.0, pods=pods, **settings)
    controller = Scripted([(0, 2)])
    simulate(a_scenario(faults=(fault,)), controller, seed=1)
    begin = controller.ticks[0][0]
    return {now - begin: samples.get(POD) for now, _, samples in controller.ticks}


def test_healthy_counters_agree_with_the_traffic():
    controller = Scripted([(0, 1)])
    simulate(a_scenario(initial_replicas=1, requests=steadily(1.0, 600.0)), controller, seed=1)
    last = controller.samples_of(POD)[-1]
    assert last.finished_requests == 600
    assert last.generation_tokens == 600 * 50
    assert last.prompt_tokens == last.prompt_tokens_computed == 600 * 200
    assert last.ttft.counts[-1] == last.tpot.counts[-1] == last.prefill.counts[-1] == 600
    assert last.inter_token.counts[-1] == 600 * 49
    assert (last.running, last.waiting, last.kv_usage) == (0, 0, 0)


def test_counters_move_between_the_ends_of_stretches_too():
    controller = Scripted([(0, 1)], interval=1.0)
    one = steadily(1.0, 1.0, output=2000)
    simulate(a_scenario(initial_replicas=1, requests=one), controller, seed=1)
    samples = controller.samples_of(POD)[2:20]
    tokens = [b.generation_tokens - a.generation_tokens for a, b in pairwise(samples)]
    steps = [b.engine_steps - a.engine_steps for a, b in pairwise(samples)]
    assert all(30 < count < 60 for count in tokens)
    assert steps == tokens


def test_lost_scrapes_are_absent_samples():
    samples = seen(FaultKind.SCRAPE_LOSS)
    assert samples[225.0] is None
    assert samples[315.0] is not None


def test_half_lost_scrapes_lose_about_half():
    samples = seen(FaultKind.SCRAPE_LOSS, fraction=0.5)
    lost = [at for at, sample in samples.items() if sample is None]
    assert 1 <= len(lost) <= 9
    assert all(150 <= at <= 300 for at in lost)


def test_nan_gauges_are_unknown_after_parsing_and_say_so():
    sample = seen(FaultKind.NAN)[225.0]
    assert sample.kv_usage is None
    assert "not_finite:kv_usage" in sample.faults


def test_counters_restart_at_zero_once():
    samples = seen(FaultKind.COUNTER_RESET)
    assert samples[150.0].finished_requests < samples[135.0].finished_requests
    assert samples[600.0].finished_requests > samples[300.0].finished_requests
    assert samples[150.0].ttft.counts[-1] < samples[135.0].ttft.counts[-1]


def test_a_frozen_pod_repeats_its_last_sample_with_its_old_time():
    samples = seen(FaultKind.FROZEN)
    assert samples[285.0] == samples[150.0]
    assert samples[315.0].at > samples[285.0].at


def test_a_renamed_series_is_missing_not_zero():
    assert seen(FaultKind.RENAMED, field="kv_usage")[225.0].kv_usage is None
    assert seen(FaultKind.RENAMED, field="prefix_hits")[225.0].prefix_hits is None


def test_a_dead_hit_counter_stands_still_while_queries_move():
    samples = seen(FaultKind.DEAD_HITS)
    assert samples[285.0].prefix_hits == samples[150.0].prefix_hits
    assert samples[285.0].prefix_queries > samples[150.0].prefix_queries


def test_a_slow_pod_takes_longer_steps_until_the_fault_ends():
    samples = seen(FaultKind.SLOW_POD, factor=3.0)

    def step_seconds(begin, end):
        first, last = samples[begin], samples[end]
        steps = last.engine_steps - first.engine_steps
        return (last.engine_busy_seconds - first.engine_busy_seconds) / steps

    assert step_seconds(165.0, 285.0) > 2.0 * step_seconds(15.0, 135.0)
    assert step_seconds(330.0, 600.0) == pytest.approx(step_seconds(15.0, 135.0), rel=0.2)


def test_pods_created_while_starts_are_stuck_stay_pending_to_the_end_of_the_fault():
    fault = Fault(FaultKind.STUCK_PENDING, start=50.0, duration=400.0)
    controller = Scripted([(0, 2), (60, 3)])
    result = simulate(a_scenario(faults=(fault,)), controller, seed=1)
    assert [point.at for point in result.timeline if point.ready == 3] == [pytest.approx(450.0)]


def test_refused_writes_change_nothing_until_the_api_is_back():
    fault = Fault(FaultKind.API_REFUSED, start=50.0, duration=100.0)
    result = simulate(a_scenario(faults=(fault,)), Scripted([(0, 2), (60, 3)]), seed=1)
    changes = [point.at for point in result.timeline if point.desired == 3]
    assert changes[0] == pytest.approx(151.0)
    assert result.actions == 1


def test_a_controller_that_is_down_is_not_asked():
    fault = Fault(FaultKind.CONTROLLER_DOWN, start=50.0, duration=100.0)
    controller = Scripted([(0, 2)])
    simulate(a_scenario(faults=(fault,)), controller, seed=1)
    begin = controller.ticks[0][0]
    assert not [now for now, _, _ in controller.ticks if 50 < now - begin < 150]


class Listening(StaticReplicas):
    def __init__(self):
        super().__init__(2)
        self.heard = []

    def restart(self, *, state_lost):
        self.heard.append(("restart", state_lost))

    def alert(self, now, *, firing, count):
        self.heard.append(("alert", firing, count))


def test_restarts_and_alerts_reach_controllers_that_listen():
    faults = (
        Fault(FaultKind.CONTROLLER_RESTART, start=10.0, fraction=0.0),
        Fault(FaultKind.CONTROLLER_RESTART, start=20.0, fraction=1.0),
        Fault(FaultKind.ALERT_STORM, start=30.0, duration=60.0, pods=1000),
    )
    controller = Listening()
    simulate(a_scenario(faults=faults), controller, seed=1)
    assert controller.heard == [
        ("restart", False),
        ("restart", True),
        ("alert", True, 1000),
        ("alert", False, 1000),
    ]


def test_a_fault_on_a_field_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no field 'kv_use'"):
        Fault(FaultKind.RENAMED, start=0.0, field="kv_use")

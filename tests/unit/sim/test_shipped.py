"""The shipped scaler behind the simulator's protocol: the same code, the same state, its restarts and alerts."""

import tracemalloc

import pytest

from kvis_operator.scaling.spec import ScalingSpec, StepTime
from kvis_operator.scaling.state import ScalerState
from kvis_sim.cluster import simulate
from kvis_sim.controller import Alertable, Restartable, StaticReplicas
from kvis_sim.scenario import Fault, FaultKind
from kvis_sim.shipped import ShippedController
from sim_builders import a_scenario, steadily


def a_controller(initial_replicas=2, **changes):
    settings = {
        "min_replicas": 1,
        "max_replicas": 16,
        "prior": StepTime(0.02, 1e-4, 2e-4, 1e-7),
        "kv_capacity_tokens": 100_000,
        "max_num_seqs": 256,
        "ttft_slo_seconds": 2.0,
        "tpot_slo_seconds": 0.1,
        "start_seconds": 60.0,
    }
    return ShippedController(ScalingSpec(**(settings | changes)), initial_replicas=initial_replicas)


def test_it_models_restarts_and_listens_to_alerts():
    assert isinstance(a_controller(), Restartable)
    assert isinstance(a_controller(), Alertable)


def test_it_grows_with_the_load():
    scenario = a_scenario(requests=steadily(30.0, 600.0), initial_replicas=1)
    result = simulate(scenario, a_controller(1), seed=1)
    assert result.timeline[-1].desired > 1
    assert {d.reason for d in result.decisions if d.replicas > d.current}


def test_a_steady_load_within_capacity_causes_no_action():
    scenario = a_scenario(duration=2400.0, requests=steadily(3.0, 2400.0), initial_replicas=1)
    result = simulate(scenario, a_controller(1), seed=1)
    assert (result.actions, result.attainment) == (0, 1.0)


@pytest.mark.parametrize("state_lost", [False, True])
def test_a_restart_keeps_the_wanted_replicas(state_lost):
    controller = a_controller(initial_replicas=3, down_memory_seconds=3600.0)
    simulate(a_scenario(initial_replicas=3), controller, seed=1)
    controller.restart(state_lost=state_lost)
    assert controller.state.desired == 3


def test_a_lost_state_forgets_what_was_learned_and_a_kept_one_does_not():
    kept, lost = a_controller(), a_controller()
    for controller in (kept, lost):
        simulate(a_scenario(), controller, seed=1)
    before = kept.state
    kept.restart(state_lost=False)
    lost.restart(state_lost=True)
    assert kept.state == before
    assert lost.state == ScalerState.initial(before.desired)


def test_a_storm_of_alerts_adds_one_replica():
    fault = Fault(FaultKind.ALERT_STORM, start=200.0, duration=200.0, pods=1000)
    result = simulate(a_scenario(faults=(fault,)), a_controller(), seed=1)
    assert max(point.desired for point in result.timeline) == 3


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length_of_the_trace():
    def peak(seconds):
        scenario = a_scenario(requests=steadily(4.0, seconds), duration=seconds)
        tracemalloc.start()
        simulate(scenario, StaticReplicas(2), seed=1)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(300.0)
    assert peak(4800.0) < peak(600.0) + 100_000

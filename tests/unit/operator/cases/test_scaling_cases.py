"""The rows S of the case table that concern deciding. S12 to S16 concern the API and the loop."""

import json
from dataclasses import replace

import pytest

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.need import memory_need
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.observation import PodPhase
from kvis_operator.signals.series import Fleet
from observations import (
    KV,
    NOON,
    TICK,
    Loop,
    a_pod,
    a_pod_state,
    a_spec,
    an_observation,
    observed,
    pods,
    recorded,
)

HOUR = 3600.0


def test_s1_a_full_cache_and_a_growing_queue_grow_within_one_window():
    loop = Loop(a_spec(tpot_slo_seconds=None, ttft_slo_seconds=None), 1)
    loop.tick(rate=2.0, kv=0.9877, waiting=0.0)
    decision = loop.tick(rate=2.0, kv=0.9992, waiting=262.0)
    assert loop.now - NOON <= 60
    assert decision.replicas >= 2 or loop.decisions[0].replicas >= 2
    assert loop.moves[0].reason is Reason.MEMORY


def test_s2_a_prefill_heavy_service_grows_on_its_queue_and_says_so():
    loop = Loop(a_spec(), 2).run(45, rate=4.0, kv=0.32, waiting=20.0, ttft_p95_seconds=9.0)
    assert loop.replicas > 2
    assert loop.moves[0].reason is Reason.BACKLOG


def test_s3_constant_metrics_change_nothing():
    loop = Loop(a_spec(), 3).run(30 * TICK, rate=9.0)
    assert loop.moves == []


def test_s4_four_pods_at_090_for_a_fill_of_050_are_eight():
    assert memory_need(4 * 0.9 * KV, KV, 0.5) == 8
    assert (
        decide(a_spec(max_replicas=8), an_observation(4, kv=0.99), ScalerState.initial(4), now=NOON)[
            0
        ].replicas
        == 5
    )


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_s5_a_computed_zero_is_the_minimum(minimum):
    loop = Loop(a_spec(min_replicas=minimum), 4).run(2 * HOUR, rate=0.0, kv=0.0)
    assert loop.replicas == minimum


def test_s6_an_idle_service_of_seven_steps_down_to_its_minimum():
    loop = Loop(a_spec(), 7).run(
        2 * HOUR, rate=0.0, kv=0.0, input_tokens=None, output_tokens=None, hit_rate=None
    )
    assert [d.replicas for d in loop.moves] == [6, 5, 4, 3, 2, 1]


def test_s7_a_starting_replica_is_credited_for_its_cause():
    loop = Loop(a_spec(start_seconds=420.0), 2)
    loop.run(405, rate=20.0, waiting=6.0)
    assert [(d.current, d.replicas) for d in loop.moves] == [(2, 5)]


def test_s8_a_replica_pending_for_hours_may_be_withdrawn_and_the_loop_lives():
    stuck = a_pod("stuck", phase=PodPhase.PENDING, fresh=False, age_seconds=3 * HOUR, sample_age_seconds=None)
    loop = Loop(a_spec(), 3)
    for _ in range(300):
        loop.tick(rate=3.0, kv=0.05, ready=2, pods=(*pods(2), stuck)) if loop.replicas == 3 else loop.tick(
            rate=3.0, kv=0.05
        )
    assert "ReplicasStuck" in loop.decisions[0].conditions
    assert loop.moves[0].victims == ("stuck",)
    grown, _ = decide(
        a_spec(), an_observation(2, rate=20.0, pods=(*pods(2), stuck)), ScalerState.initial(3), now=NOON
    )
    assert grown.replicas == 5


def test_s9_oscillating_load_moves_at_most_once_per_memory():
    loop = Loop(a_spec(), 3)
    for i in range(int(4 * HOUR / TICK)):
        loop.tick(rate=9.0 if i // 20 % 2 else 3.0)
    assert len(loop.moves) <= 1


def test_s10_a_restart_restores_the_cooldown():
    loop = Loop(a_spec(down_memory_seconds=60.0), 2)
    loop.tick(rate=20.0)
    raw = json.dumps(loop.state.to_json())
    later = Loop(loop.spec, 5, state=ScalerState.restore(json.loads(raw)), now=loop.now)
    later.run(225, rate=1.0)
    assert later.replicas == 5
    assert later.decisions[-1].reason is Reason.COOLDOWN_AFTER_UP


def test_s10_after_a_restart_with_lost_state_an_idle_service_still_shrinks_one_memory_later():
    memory = 1200.0
    loop = Loop(a_spec(down_memory_seconds=memory), 3, state=ScalerState.restore(None).following(3))
    loop.run(memory * 0.85, rate=0.0, kv=0.0)
    assert loop.moves == []
    assert loop.run(HOUR, rate=0.0, kv=0.0).replicas == 1


def test_s11_two_actors_with_the_same_state_decide_the_same():
    obs, state = an_observation(2, rate=20.0), ScalerState.initial(2)
    assert decide(a_spec(), obs, state, now=NOON) == decide(a_spec(), obs, state, now=NOON)


def test_s17_a_budget_caps_and_says_so():
    decision, _ = decide(
        a_spec(gpu_budget_replicas=4), an_observation(3, rate=40.0), ScalerState.initial(3), now=NOON
    )
    assert (decision.replicas, decision.reason) == (4, Reason.BUDGET_REACHED)
    assert "BudgetReached" in decision.conditions


def test_s17_a_lowered_budget_never_leaves_it_stuck_above():
    decision, _ = decide(
        a_spec(gpu_budget_replicas=2), an_observation(5, rate=10.0), ScalerState.initial(5), now=NOON
    )
    assert (decision.replicas, len(decision.victims)) == (2, 3)


def test_s18_contradictory_bounds_are_refused_with_the_field():
    with pytest.raises(ValueError, match="max_replicas"):
        a_spec(min_replicas=3, max_replicas=2)
    with pytest.raises(ValueError, match="min_replicas"):
        a_spec(min_replicas=0)


def test_s19_absent_thresholds_are_defaults_and_never_zero():
    spec = a_spec()
    assert (spec.rho_up, spec.rho_down, spec.down_memory_seconds) == (0.85, 0.80, None)
    numbers = decide(spec, an_observation(2), ScalerState.initial(2), now=NOON)[0].numbers
    assert numbers["memory_seconds"] > 0


def test_s20_an_explicit_zero_is_honoured():
    loop = Loop(a_spec(down_memory_seconds=0.0), 4).run(300, rate=12.0, kv=0.05)
    assert loop.run(30, rate=3.0, kv=0.05).replicas < 4


def test_s20_an_explicit_zero_that_cannot_work_is_refused():
    with pytest.raises(ValueError, match=r"tpot_slo_seconds is 0\.0"):
        a_spec(tpot_slo_seconds=0.0)


def test_s21_samples_of_a_cold_pod_teach_nothing():
    young = a_pod_state("pod-0", created_at=NOON - 200.0, ready_at=NOON - 60.0)
    obs = observed(recorded(Fleet()), young)
    assert (obs.hit_rate, obs.pods[0].steps, obs.pods[0].warm) == (None, None, False)


def test_s22_an_objective_missed_at_the_maximum_is_said_and_the_maximum_kept():
    loop = Loop(a_spec(max_replicas=3), 3).run(HOUR, rate=30.0, ttft_p95_seconds=9.0, waiting=9.0)
    assert loop.replicas == 3
    assert "SLOInfeasible" in loop.decisions[-1].conditions


def test_s22_an_objective_below_the_shortest_step_is_said_with_the_best_that_could_be():
    spec = a_spec(tpot_slo_seconds=0.02)
    loop = Loop(spec, 3).run(2 * HOUR, rate=3.0)
    decision = loop.decisions[-1]
    assert (loop.replicas, decision.reason) == (3, Reason.HOLD_SLO_INFEASIBLE)
    assert "SLOInfeasible" in decision.conditions
    assert decision.numbers["best_tpot_seconds"] == pytest.approx(0.0267, rel=1e-2)


def test_a_cold_replica_dipping_the_hit_rate_starts_no_cascade():
    loop = Loop(a_spec(), 4).run(600, rate=12.0, hit_rate=0.35)
    loop.run(600, rate=12.0, hit_rate=0.25)
    assert loop.moves == []
    assert replace(loop.state, desired=4) == loop.state

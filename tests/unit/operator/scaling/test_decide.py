"""The policy as a whole: order of the rules, growth limits, holds, bounds."""

from dataclasses import replace
from typing import Any

import pytest

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Decision, Reason
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.observation import PodPhase, StepWindow
from observations import NOON, TICK, Loop, a_pod, a_spec, an_observation, blind, pods

HOUR = 3600.0


def once(
    replicas: int | None = 2, *, ready: int | None = None, spec: dict[str, Any] | None = None, **obs: Any
) -> Decision:
    observation = an_observation(replicas or 0 if ready is None else ready, **obs)
    return decide(a_spec(**(spec or {})), observation, ScalerState.initial(replicas), now=NOON)[0]


class TestUp:
    def test_grows_to_what_the_load_needs(self):
        decision = once(2, rate=20.0)
        assert (decision.replicas, decision.reason) == (5, Reason.CAPACITY)

    def test_by_at_most_four_or_twice_a_tick(self):
        assert once(2, rate=60.0).replicas == 6
        assert once(5, rate=60.0).replicas == 10

    def test_asking_again_in_the_same_tick_adds_nothing(self):
        spec, obs = a_spec(), an_observation(2, rate=60.0)
        first, state = decide(spec, obs, ScalerState.initial(2), now=NOON)
        again, state = decide(spec, obs, state, now=NOON + 1)
        assert (first.replicas, again.replicas) == (6, 6)
        later, _ = decide(spec, replace(obs, at=NOON + TICK), state, now=NOON + TICK)
        assert later.replicas == 12

    def test_memory_alone_grows(self):
        decision = once(2, rate=1.0, kv=0.99)
        assert (decision.replicas, decision.reason) == (3, Reason.MEMORY)

    def test_without_any_objective_memory_and_queue_still_grow(self):
        spec = {"tpot_slo_seconds": None, "ttft_slo_seconds": None}
        assert once(2, rate=1.0, kv=0.97, waiting=40.0, spec=spec).replicas == 3

    def test_pods_on_their_way_count(self):
        loop = Loop(a_spec(), 2)
        assert loop.tick(rate=20.0).replicas == 5
        assert loop.tick(rate=20.0).replicas == 5

    def test_a_shift_to_longer_prompts_counts_at_once(self):
        assert once(2, rate=8.0).replicas == 2
        assert once(2, rate=8.0, recent_input_tokens=1155.0 * 1.2).replicas == 2
        assert once(2, rate=8.0, recent_input_tokens=6000.0).replicas > 2
        assert once(2, rate=8.0, recent_output_tokens=900.0).replicas > 2

    def test_hints_stand_in_until_traffic_is_seen(self):
        hints = {"input_tokens_hint": 1155.0, "output_tokens_hint": 211.0}
        unseen = {"input_tokens": None, "output_tokens": None, "hit_rate": None}
        assert once(2, rate=20.0, spec=hints, **unseen).replicas == 6
        assert once(2, rate=20.0, **unseen).replicas == 2

    def test_the_last_known_shape_stands_in_after_a_silence(self):
        loop = Loop(a_spec(), 2).run(60, rate=4.0)
        assert loop.tick(rate=20.0, input_tokens=None, output_tokens=None, hit_rate=None).replicas == 5

    def test_a_measured_cache_wins_over_the_planned_one(self):
        assert once(2, rate=1.0, kv=0.5, kv_capacity_tokens=240_000.0).replicas == 3

    def test_a_smaller_ceiling_in_the_pod_wins(self):
        assert once(2, rate=8.0, max_num_seqs=30).replicas > once(2, rate=8.0).replicas


class TestUnprovenPrior:
    def test_growth_by_an_unmeasured_prior_waits_for_measurements_on_their_way(self):
        loop = Loop(a_spec(), 2)
        loop.run(240, rate=20.0, pods=pods(2, warm=False))
        assert loop.replicas == 2
        assert loop.state.demand.values == ()
        assert loop.tick(rate=20.0, pods=pods(2, warm=False)).replicas == 5

    def test_no_longer_than_the_demand_memory_that_a_wrong_prior_would_be_paid_for(self):
        loop = Loop(a_spec(down_memory_seconds=60.0), 2)
        loop.run(60, rate=20.0, pods=pods(2, warm=False))
        assert loop.replicas == 2
        assert loop.tick(rate=20.0, pods=pods(2, warm=False)).replicas == 5

    def test_memory_and_queue_do_not_wait(self):
        assert once(2, rate=1.0, kv=0.99, pods=pods(2, warm=False)).replicas == 3
        assert once(5, rate=20.0, waiting=160.0, pods=pods(5, warm=False)).replicas == 6

    def test_a_few_ticks_of_steps_prove_it(self):
        window = StepWindow(200.0, 0.056, 40.0, 93.0, 117_000.0)
        loop = Loop(a_spec(), 2)
        replicas = [loop.tick(rate=20.0, pods=pods(2, steps=window)).replicas for _ in range(6)]
        assert replicas == [2, 2, 2, 2, 5, 5]

    def test_without_any_measurement_to_come_the_prior_counts_at_once(self):
        assert once(2, rate=20.0).replicas == 5

    def test_without_the_fit_there_is_nothing_to_wait_for(self):
        spec = {"features": a_spec().features - {"fit"}}
        assert once(2, rate=20.0, pods=pods(2, warm=False), spec=spec).replicas == 5


class TestGuard:
    def test_adds_one_and_waits_a_start_time(self):
        loop = Loop(a_spec(), 3)
        loop.run(2 * TICK, rate=4.0, pods=pods(3, waiting=4.0))
        assert loop.replicas == 3
        decision = loop.tick(rate=4.0, pods=pods(3, waiting=4.0))
        assert (decision.replicas, decision.reason) == (4, Reason.BACKLOG)
        loop.run(105, rate=4.0, pods=pods(3, waiting=4.0))
        assert loop.replicas == 4

    def test_does_not_fire_while_a_replica_is_starting(self):
        starting = a_pod("new", phase=PodPhase.PENDING, fresh=False, age_seconds=30.0)
        loop = Loop(a_spec(), 4)
        for _ in range(10):
            loop.tick(rate=4.0, ready=3, pods=(*pods(3, waiting=9.0), starting))
        assert loop.replicas == 4

    def test_an_slo_missed_for_two_minutes_adds_one(self):
        loop = Loop(a_spec(), 2).run(120, rate=6.0, ttft_p95_seconds=3.0, waiting=2.0)
        assert loop.replicas == 2
        decision = loop.tick(rate=6.0, ttft_p95_seconds=3.0, waiting=2.0)
        assert (decision.replicas, decision.reason) == (3, Reason.SLO_GUARD)

    def test_preemptions_for_two_minutes_add_one(self):
        loop = Loop(a_spec(), 2).run(135, rate=6.0, preemptions_per_request=0.2)
        assert (loop.replicas, loop.decisions[-1].reason) == (3, Reason.MEMORY)

    def test_firing_twice_lowers_the_target_utilisation(self):
        loop = Loop(a_spec(), 2).run(1200, rate=6.0, tpot_p95_seconds=0.2, waiting=8.0)
        assert loop.decisions[-1].numbers["rho_up"] < 0.85
        assert loop.decisions[-1].numbers["rho_down"] < 0.80


class TestBlind:
    def test_with_fewer_than_half_seen_nothing_moves(self):
        obs = blind(an_observation(4, rate=60.0), 3)
        decision, _ = decide(a_spec(), obs, ScalerState.initial(4), now=NOON)
        assert (decision.replicas, decision.reason) == (4, Reason.HOLD_METRICS_STALE)
        assert "MetricsStale" in decision.conditions

    def test_a_single_pod_unseen_is_stale_and_none_at_all_is_not(self):
        assert once(1, pods=blind(an_observation(1), 1).pods).conditions == {"MetricsStale"}
        assert once(1, ready=0).conditions == frozenset()

    def test_with_half_seen_it_may_still_grow(self):
        obs = blind(an_observation(4, rate=60.0), 2)
        assert decide(a_spec(), obs, ScalerState.initial(4), now=NOON)[0].replicas == 8

    def test_with_no_data_at_all_it_holds(self):
        decision = once(3, pods=pods(3, fresh=False, sample_age_seconds=None), rate=None)
        assert (decision.replicas, decision.reason) == (3, Reason.HOLD_NO_DATA)

    def test_before_the_first_pod_is_ready_it_waits(self):
        starting = pods(2, phase=PodPhase.PENDING, fresh=False, age_seconds=10.0)
        decision = once(2, pods=starting, rate=None)
        assert (decision.replicas, decision.reason) == (2, Reason.HOLD_PENDING)

    def test_an_alert_raises_even_then(self):
        decision = once(2, pods=pods(2, fresh=False), rate=None, spec={"alert_floor": 3})
        assert (decision.replicas, decision.reason) == (3, Reason.ALERT_FLOOR)


class TestBounds:
    def test_from_nothing_to_the_minimum(self):
        decision = once(None, rate=None, spec={"min_replicas": 2})
        assert (decision.current, decision.replicas, decision.reason) == (0, 2, Reason.LIMITED)

    def test_never_above_the_maximum(self):
        decision = once(3, rate=60.0, spec={"max_replicas": 4})
        assert (decision.replicas, decision.reason) == (4, Reason.LIMITED)

    def test_a_lowered_maximum_is_obeyed_even_blind(self):
        decision = once(5, pods=pods(5, fresh=False), rate=None, spec={"max_replicas": 3})
        assert (decision.replicas, decision.reason, len(decision.victims)) == (3, Reason.LIMITED, 2)

    def test_an_alert_floor_does_not_lift_the_maximum(self):
        assert once(3, spec={"alert_floor": 9, "max_replicas": 4}).replicas == 4

    def test_a_floor_already_met_is_not_a_reason(self):
        assert once(3, rate=20.0, spec={"alert_floor": 4}).reason is Reason.CAPACITY

    def test_moves_for_the_bounds_are_no_flapping(self):
        spec, state = a_spec(), ScalerState.initial(4)
        for limit in (3, 5, 3, 5, 3, 5):
            bounds = {"min_replicas": limit, "max_replicas": limit}
            _, state = decide(a_spec(**bounds), an_observation(4), state, now=NOON)
        assert state.flap.factor == 1
        assert spec.max_replicas == 16


class TestConditions:
    @pytest.mark.parametrize(
        ("fault", "condition"),
        [
            ("hits_exceed_queries", "SignalImplausible"),
            ("kv_usage_out_of_range", "SignalImplausible"),
            ("not_finite:waiting", "SignalImplausible"),
            ("kv_unknown", "MetricsDegraded"),
            ("frozen", "MetricsDegraded"),
        ],
    )
    def test_faults_become_conditions(self, fault, condition):
        assert once(2, faults=frozenset({fault})).conditions == {condition}

    def test_a_calm_service_has_none(self):
        assert once(2).conditions == frozenset()

    def test_every_decision_carries_its_numbers(self):
        numbers = once(2, rate=4.0).numbers
        assert numbers["replica_rate"] == pytest.approx(4.907, rel=1e-3)
        assert {"rate_60s", "need_up", "need_down", "floor_memory", "batch", "rho_up", "step_a"} <= set(
            numbers
        )
        assert all(isinstance(value, float) for value in numbers.values())


def test_the_numbers_of_a_decision_are_these():
    windows = pods(2, kv_usage=0.2, load_seconds=100.0)
    decision = once(2, rate=4.0, pods=windows, waiting=3.0, ttft_p95_seconds=0.4, tpot_p95_seconds=0.06)
    expected = {
        "rate_60s": 4.0, "rate_expected": 4.0, "waiting": 3.0, "kv_usage": 0.2, "kv_tokens": 192_000.0,
        "ttft_p95_seconds": 0.4, "tpot_p95_seconds": 0.06, "preemptions_per_request": 0.0,
        "need_up": 1.0, "need_down": 4.0 / 3.926,
        "need_keep": 5.1103 / 4.171, "usual_peak": 4.0 + 4.3 * (4.0 / 60.0) ** 0.5,
        "need_memory": 1.0, "backlog": 3 / (60 * 4.907),
        "floor_memory": 2.0, "batch": 93.0, "batch_max": 256.0, "replica_rate": 4.907, "itl_seconds": 0.08982,
        "best_tpot_seconds": 0.02669, "busy_share": 4.0 / (2 * 4.907), "input_tokens": 1155.0,
        "output_tokens": 211.0, "hit_rate": 0.3, "rho_up": 0.85, "rho_down": 0.80, "memory_seconds": 600.0,
        "start_seconds": 100.0, "ready": 2.0, "fresh": 2.0, "step_a": 0.026, "step_p": 0.000094, "step_d": 0.0002,
        "step_c": 1e-7, "fit_ticks": 0.0,
    }  # fmt: skip
    assert decision.numbers == pytest.approx(expected, rel=1e-3)


class TestAtTheMaximum:
    def test_a_need_of_exactly_the_maximum_is_no_limit(self):
        decision = once(2, rate=12.0, spec={"max_replicas": 3})
        assert (decision.replicas, decision.reason) == (3, Reason.CAPACITY)

    def test_a_queue_asks_for_nothing_more(self):
        loop = Loop(a_spec(max_replicas=3), 3).run(150, rate=4.0, pods=pods(3, waiting=4.0))
        assert (loop.replicas, loop.decisions[-1].reason) == (3, Reason.HOLD_DEMAND_MEMORY)

    def test_an_objective_that_is_met_is_feasible(self):
        assert once(3, rate=4.0, spec={"max_replicas": 3}).conditions == frozenset()

    def test_an_objective_missed_below_it_may_yet_be_met(self):
        loop = Loop(a_spec(), 2).run(45, rate=6.0, ttft_p95_seconds=3.0, waiting=2.0)
        assert loop.decisions[-1].conditions == frozenset()


class TestAblations:
    def test_without_memory_it_shrinks_at_once(self):
        spec = a_spec(features=a_spec().features - {"memory"})
        loop = Loop(spec, 5).run(60, rate=18.0)
        assert loop.run(60, rate=3.0).replicas < 5

    def test_without_backlog_a_queue_does_not_count(self):
        spec = {"features": a_spec().features - {"backlog"}}
        assert once(5, rate=20.0, waiting=1000.0, pods=pods(5)).replicas == 8
        assert once(5, rate=20.0, waiting=1000.0, pods=pods(5), spec=spec).replicas == 5

    def test_without_hits_every_prompt_is_computed(self):
        spec = {"features": a_spec().features - {"hit"}}
        assert once(4, rate=15.0, spec=spec).replicas == once(4, rate=15.0, hit_rate=0.0).replicas == 5

    def test_without_pending_credit_the_guard_fires_anyway(self):
        starting = a_pod("new", phase=PodPhase.PENDING, fresh=False, age_seconds=30.0)
        loop = Loop(a_spec(features=a_spec().features - {"pending_credit"}), 4)
        for _ in range(3):
            loop.tick(rate=4.0, ready=3, pods=(*pods(3, waiting=9.0), starting))
        assert loop.replicas == 5

"""The law of the live cap, with the rows T of the case table that concern it.

T3, T5, T6 and T8 concern trials of knobs that need a restart, and are not part of this law.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from kvis_operator.signals.observation import PodPhase, PodSignals
from kvis_operator.tuning.admission import (
    CapDecision,
    CapReason,
    CapSpec,
    CapState,
    decide_cap,
    memory_target,
)
from observations import NOON, a_pod, an_observation

SPEC = CapSpec(ceiling=256)


def a_capped_pod(cap: int | None = 40, **changes: Any) -> PodSignals:
    defaults: dict[str, Any] = {
        "max_num_active_seqs": cap,
        "running": float(cap or 0),
        "waiting": 8.0,
        "kv_usage": 0.2,
    }
    return a_pod(**(defaults | changes))


def a_storm(cap: int = 40, **changes: Any) -> PodSignals:
    return a_capped_pod(cap, **({"kv_usage": 0.99, "preemptions_per_request": 0.4} | changes))


def decided(pod: PodSignals, spec: CapSpec = SPEC, state: CapState | None = None, **obs: Any) -> CapDecision:
    return decide_cap(spec, pod, an_observation(**obs), state or CapState(), now=NOON)[0]


def cap_of(pod: PodSignals, **rest: Any) -> tuple[int | None, CapReason]:
    decision = decided(pod, **rest)
    return decision.cap, decision.reason


class TestRaising:
    def test_t2_a_queue_behind_the_cap_with_memory_free_raises_it(self):
        assert cap_of(a_capped_pod()) == (50, CapReason.RAISE)

    def test_only_while_requests_wait(self):
        assert cap_of(a_capped_pod(waiting=0.0)) == (40, CapReason.SUFFICIENT)

    def test_only_when_the_cap_is_what_they_wait_for(self):
        assert cap_of(a_capped_pod(running=39.0)) == (40, CapReason.SUFFICIENT)

    @pytest.mark.parametrize(
        ("usage", "cap"), [(0.3, 100), (0.6, 100), (0.725, 90), (0.84, 80), (0.85, 80), (0.97, 80)]
    )
    def test_t10_growth_tapers_to_none_at_the_soft_limit(self, usage, cap):
        assert cap_of(a_capped_pod(80, kv_usage=usage), spec=CapSpec(256))[0] == cap

    def test_near_the_soft_limit_it_says_why_not(self):
        assert cap_of(a_capped_pod(80, kv_usage=0.86)) == (80, CapReason.KV_LIMIT)
        assert cap_of(a_capped_pod(4, kv_usage=0.84)) == (4, CapReason.KV_LIMIT)

    def test_never_beyond_what_the_footprint_of_today_fills(self):
        assert cap_of(a_capped_pod(10, running=10.0, kv_usage=0.75)) == (11, CapReason.RAISE)

    def test_a_small_cap_grows_by_one(self):
        assert cap_of(a_capped_pod(1)) == (2, CapReason.RAISE)

    @pytest.mark.parametrize(
        ("spec", "cap"),
        [
            (CapSpec(45), 45),
            (CapSpec(256, maximum=44), 44),
            (CapSpec(256, slo_batch=43), 43),
            (CapSpec(256, maximum=40), 40),
        ],
    )
    def test_never_beyond_ceiling_maximum_or_the_batch_of_the_objective(self, spec, cap):
        assert cap_of(a_capped_pod(), spec=spec)[0] == cap

    def test_at_its_bound_it_says_so(self):
        assert cap_of(a_capped_pod(), spec=CapSpec(40)) == (40, CapReason.AT_BOUND)

    def test_a_cap_already_beyond_the_batch_is_not_lowered_for_a_queue(self):
        assert cap_of(a_capped_pod(), spec=CapSpec(256, slo_batch=20)) == (40, CapReason.AT_BOUND)

    def test_an_empty_cache_is_no_obstacle(self):
        assert cap_of(a_capped_pod(kv_usage=0.0)) == (50, CapReason.RAISE)

    def test_t11_a_queue_needs_no_rejections_to_be_seen(self):
        assert decided(a_capped_pod()).numbers["waiting"] == 8.0


class TestStorm:
    def test_t1_preemptions_halve_what_runs(self):
        assert cap_of(a_storm(75)) == (37, CapReason.PREEMPTION_STORM)

    def test_a_cap_far_above_what_runs_is_cut_to_half_of_what_runs(self):
        assert cap_of(a_storm(256, running=75.0)) == (37, CapReason.PREEMPTION_STORM)

    def test_single_preemptions_are_no_storm(self):
        assert cap_of(a_capped_pod(preemptions_per_request=0.1))[1] is CapReason.RAISE

    def test_never_below_the_minimum(self):
        assert cap_of(a_storm(5), spec=CapSpec(256, minimum=4))[0] == 4

    def test_t4_too_few_requests_are_no_evidence(self):
        assert cap_of(a_storm(finished=4.0)) == (40, CapReason.HOLD_EVIDENCE)
        assert cap_of(a_storm(finished=None)) == (40, CapReason.HOLD_EVIDENCE)

    def test_five_requests_are_enough(self):
        assert cap_of(a_storm(finished=5.0)) == (20, CapReason.PREEMPTION_STORM)

    @pytest.mark.parametrize(
        "over", [{"waiting": 0.0, "running": 0.0}, {"waiting": 6.0, "running": 2.0, "kv_usage": 0.1}]
    )
    def test_one_that_is_over_says_nothing_about_what_runs_now(self, over):
        """Idle, or filling up again: a cut to half of what runs would leave one, for an hour."""
        decision, state = decide_cap(SPEC, a_storm(8, **over), an_observation(), CapState(), now=NOON)
        assert (decision.cap, decision.reason, state) == (8, CapReason.HOLD_EVIDENCE, CapState())

    @pytest.mark.parametrize(("usage", "cap"), [(0.6, 20), (0.599, 40)])
    def test_it_lasts_while_requests_wait_and_the_cache_is_not_free(self, usage, cap):
        assert cap_of(a_storm(40, kv_usage=usage))[0] == cap

    def test_the_size_that_failed_becomes_a_bound(self):
        storm = a_storm(75)
        _, state = decide_cap(SPEC, storm, an_observation(), CapState(), now=NOON)
        assert (state.bound, state.bound_at, state.lowered, state.moved_at) == (74, NOON, True, NOON)
        calm = a_capped_pod(70)
        assert decide_cap(SPEC, calm, an_observation(), state, now=NOON + 200)[0].cap == 74

    def test_the_bound_is_forgotten_after_an_hour(self):
        state = CapState(bound=74, bound_at=NOON - 3600)
        decision, state = decide_cap(SPEC, a_capped_pod(70), an_observation(), state, now=NOON)
        assert (decision.cap, state.bound) == (87, None)
        kept = CapState(bound=74, bound_at=NOON - 3599)
        assert decide_cap(SPEC, a_capped_pod(70), an_observation(), kept, now=NOON)[0].cap == 74

    def test_it_is_cut_again_after_the_settle_time_while_the_storm_lasts(self):
        state, caps, cap = CapState(), [], 80
        for i in range(30):
            pod = a_storm(cap)
            decision, state = decide_cap(SPEC, pod, an_observation(), state, now=NOON + 15 * i)
            assert decision.cap is not None
            cap = decision.cap
            caps.append(cap)
        assert sorted(set(caps), reverse=True) == [40, 20, 10]
        assert caps.index(20) - caps.index(40) == 10


class TestTrim:
    def test_a_full_cache_with_a_queue_trims_to_what_fits(self):
        full = a_capped_pod(400, running=330.0, kv_usage=0.96)
        assert cap_of(full, spec=CapSpec(512)) == (323, CapReason.KV_PRESSURE)

    def test_shared_prefixes_let_more_fit_than_the_lengths_say(self):
        full = a_capped_pod(500, running=500.0, kv_usage=0.96)
        assert cap_of(full, spec=CapSpec(512)) == (479, CapReason.KV_PRESSURE)

    @pytest.mark.parametrize("calm", [{"kv_usage": 0.94}, {"waiting": 0.0}])
    def test_not_without_pressure(self, calm):
        assert (
            cap_of(a_capped_pod(400, **({"running": 330.0, "kv_usage": 0.96} | calm)), spec=CapSpec(512))[0]
            == 400
        )

    def test_not_without_knowing_lengths(self):
        full = a_capped_pod(400, running=330.0, kv_usage=0.96)
        assert cap_of(full, spec=CapSpec(512), input_tokens=None) == (400, CapReason.SUFFICIENT)

    def test_a_cap_that_fits_is_left(self):
        assert cap_of(a_capped_pod(100, running=100.0, kv_usage=0.96))[0] == 100
        assert cap_of(a_capped_pod(300, running=300.0, kv_usage=0.96), spec=CapSpec(512))[0] == 300


class TestLatency:
    SLOW = CapSpec(256, tpot_slo_seconds=0.1, slo_batch=60)

    def slow_pod(self, **changes: Any) -> PodSignals:
        return a_capped_pod(100, **({"waiting": 0.0, "tpot_p95_at_least_seconds": 0.15} | changes))

    def test_a_pod_beyond_the_batch_of_the_objective_is_trimmed_by_a_quarter(self):
        assert cap_of(self.slow_pod(), spec=self.SLOW) == (75, CapReason.TPOT_MISSED)

    def test_never_below_the_batch_of_the_objective(self):
        assert cap_of(self.slow_pod(running=70.0), spec=self.SLOW) == (60, CapReason.TPOT_MISSED)
        assert cap_of(self.slow_pod(running=60.0), spec=self.SLOW)[1] is CapReason.SUFFICIENT

    @pytest.mark.parametrize(
        "change",
        [
            {"waiting": 1.0},  # capacity is short: the scaler's task
            {"tpot_p95_at_least_seconds": 0.075},  # perhaps met: nobody can tell inside the bucket
            {"tpot_p95_at_least_seconds": None},
            {"finished": 4.0},
        ],
    )
    def test_not_without_certain_evidence_that_fewer_would_help(self, change):
        assert cap_of(self.slow_pod(**change), spec=self.SLOW)[1] is not CapReason.TPOT_MISSED

    @pytest.mark.parametrize("change", [{"tpot_slo_seconds": None}, {"slo_batch": None}])
    def test_not_without_an_objective_and_its_batch(self, change):
        assert cap_of(self.slow_pod(), spec=replace(self.SLOW, **change))[1] is CapReason.SUFFICIENT

    def test_one_slow_pod_does_not_cut_the_others(self):
        assert cap_of(a_capped_pod(100, waiting=0.0), spec=self.SLOW, tpot_p95_seconds=0.4)[0] == 100


class TestHolds:
    def test_t7_an_engine_without_a_live_cap_is_left_alone(self):
        assert cap_of(a_capped_pod(None, running=5.0)) == (None, CapReason.NOT_TUNABLE)

    def test_t9_paused_still_reports(self):
        decision = decided(a_capped_pod(), spec=CapSpec(256, paused=True))
        assert (decision.cap, decision.reason) == (40, CapReason.PAUSED)
        assert decision.numbers["running"] == 40.0

    @pytest.mark.parametrize(
        "change",
        [
            {"fresh": False},
            {"phase": PodPhase.DRAINING},
            {"running": None},
            {"waiting": None},
            {"kv_usage": None},
            {"waiting": float("nan")},
            {"kv_usage": -1.0},
        ],
    )
    def test_unknown_readings_move_nothing(self, change):
        assert cap_of(a_capped_pod(**change)) == (40, CapReason.HOLD_NO_DATA)

    @pytest.mark.parametrize(
        ("lowered", "since", "moves"),
        [(False, 29.0, False), (False, 30.0, True), (True, 149.0, False), (True, 150.0, True)],
    )
    def test_a_move_settles_before_the_next(self, lowered, since, moves):
        reason = decided(a_capped_pod(), state=CapState(moved_at=NOON - since, lowered=lowered)).reason
        assert reason is (CapReason.RAISE if moves else CapReason.HOLD_SETTLING)

    def test_a_clock_set_back_does_not_settle_for_ever(self):
        assert decided(a_capped_pod(), state=CapState(moved_at=NOON + 9999)).reason is CapReason.RAISE

    def test_a_cap_outside_its_bounds_is_brought_back_at_once(self):
        settling = CapState(moved_at=NOON - 1)
        assert cap_of(a_capped_pod(40), spec=CapSpec(256, maximum=30), state=settling) == (
            30,
            CapReason.BOUNDS,
        )
        assert cap_of(a_capped_pod(2), spec=CapSpec(256, minimum=4), state=settling) == (4, CapReason.BOUNDS)

    def test_an_unmoved_cap_leaves_the_state(self):
        state = CapState(moved_at=NOON - 500, lowered=True, bound=50, bound_at=NOON - 500)
        assert decide_cap(SPEC, a_capped_pod(waiting=0.0), an_observation(), state, now=NOON)[1] == state

    def test_a_raise_is_remembered_as_one(self):
        _, state = decide_cap(SPEC, a_capped_pod(), an_observation(), CapState(), now=NOON)
        assert (state.moved_at, state.lowered, state.bound) == (NOON, False, None)


def test_numbers_come_with_every_decision():
    decision = decided(a_capped_pod(tpot_p95_at_least_seconds=0.05), state=CapState(bound=99, bound_at=NOON))
    assert decision.numbers == {
        "running": 40.0,
        "waiting": 8.0,
        "kv_usage": 0.2,
        "preemptions_per_request": 0.0,
        "finished": 100.0,
        "tpot_p95_at_least_seconds": 0.05,
        "memory_target": 323.0,
        "bound": 99.0,
    }
    assert (decision.pod, decision.current) == ("pod-0", 40)


def test_the_memory_target_is_92_percent_of_the_cache_in_mean_lengths():
    assert memory_target(a_pod(), an_observation()) == 323
    assert memory_target(a_pod(kv_capacity_tokens=100.0), an_observation()) == 1
    assert memory_target(a_pod(kv_capacity_tokens=None), an_observation()) is None
    assert memory_target(a_pod(), an_observation(output_tokens=None)) is None
    assert memory_target(a_pod(), an_observation(input_tokens=0.0, output_tokens=0.0)) is None


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"ceiling": 0}, "ceiling is 0; it must be >= 1"),
        ({"ceiling": 8, "minimum": 0}, "minimum is 0; it must be 1 to the ceiling 8"),
        ({"ceiling": 8, "minimum": 9}, "minimum is 9; it must be 1 to the ceiling 8"),
        ({"ceiling": 8, "minimum": 4, "maximum": 3}, "maximum is 3; it must be >= the minimum 4"),
    ],
)
def test_bounds_that_cannot_work_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        CapSpec(**bounds)


def test_edges_of_bounds_work():
    assert CapSpec(1).upper == 1
    assert CapSpec(8, minimum=8, maximum=8).upper == 8
    assert CapSpec(8, maximum=100).upper == 8


def test_the_state_survives_json():
    for state in (CapState(), CapState(NOON, True, 7, NOON), CapState(NOON, False)):
        assert CapState.restore(json.loads(json.dumps(state.to_json()))) == state
    assert CapState().to_json() == {}


@pytest.mark.parametrize(
    "raw", [None, "lost", [], {"moved_at": "x"}, {"bound": True}, {"bound_at": float("nan")}]
)
def test_a_lost_state_is_nothing_remembered(raw):
    assert CapState.restore(raw) == CapState()

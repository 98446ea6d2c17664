import pytest

from kvis_operator.signals import faults
from kvis_operator.signals.observation import PodPhase
from kvis_operator.signals.series import Fleet
from observations import NOON, TICK, a_pod_state, a_sample, histogram, observed, recorded


def two_pods(**second) -> Fleet:
    return recorded(recorded(Fleet(), "a", rate=2.0), "b", **({"rate": 4.0} | second))


A, B = a_pod_state("a"), a_pod_state("b")


def test_rates_add_up_over_pods():
    obs = observed(two_pods(), A, B)
    assert obs.rate_60s == pytest.approx(6.0)
    assert obs.rate_15s == pytest.approx(6.0)


def test_the_shape_of_requests_is_weighted_by_requests():
    obs = observed(two_pods(), A, B)
    assert (obs.input_tokens, obs.output_tokens) == (pytest.approx(1000.0), pytest.approx(100.0))


def test_load_now_adds_up():
    obs = observed(two_pods(waiting=3.0, kv_usage=0.75), A, B)
    assert (obs.running, obs.waiting, obs.kv_tokens) == (8.0, 3.0, 32_000.0)
    assert (obs.kv_usage, obs.kv_usage_max) == (0.5, 0.75)
    assert (obs.kv_capacity_tokens, obs.max_num_seqs) == (32_000.0, 64)


def test_the_hit_rate_is_a_sum_over_a_sum_with_its_volume():
    fleet = recorded(Fleet(), "a", rate=9.0)
    for i in range(61):
        requests = 1000.0 + 1.0 * i * TICK
        fleet.record(
            "b", a_sample(NOON - 900 + i * TICK, requests, prefix_hits=0.0, prompt_tokens_cached=None)
        )
    obs = observed(fleet, A, B)
    assert obs.hit_rate == pytest.approx(0.3 * 9 / 10)
    assert obs.hit_queries == pytest.approx(10 * 600 * 1000)


def test_a_cold_pod_does_not_count_for_the_hit_rate():
    young = a_pod_state("b", created_at=NOON - 200.0, ready_at=NOON - 80.0)
    fleet = two_pods(prefix_hits=0.0, prompt_tokens_cached=None)
    obs = observed(fleet, A, young)
    assert obs.hit_rate == pytest.approx(0.3)
    assert not obs.pods[1].warm
    assert obs.pods[1].steps is None


def test_a_pod_with_few_requests_is_cold():
    fleet = Fleet()
    for i in range(61):
        fleet.record("pod-0", a_sample(NOON - 900 + i * TICK, i * 0.8))
    assert not observed(fleet).pods[0].warm


def test_the_speed_of_a_pod_counts_after_a_thousand_tokens_however_few_its_requests():
    fleet, idle = Fleet(), Fleet()
    for i in range(61):
        fleet.record("pod-0", a_sample(NOON - 900 + i * TICK, i * 0.8))
        idle.record("pod-0", a_sample(NOON - 900 + i * TICK, i * 0.07))
    assert observed(fleet).pods[0].steps is not None
    assert observed(idle).pods[0].steps is None


def test_no_queries_have_no_hit_rate():
    obs = observed(recorded(Fleet(), rate=0.0))
    assert (obs.hit_rate, obs.hit_queries) == (None, None)
    assert obs.rate_60s == 0.0


def test_hits_beyond_queries_are_implausible():
    fleet = Fleet()
    for i in range(61):
        requests = 1000.0 + 30.0 * i
        fleet.record(
            "pod-0",
            a_sample(
                NOON - 900 + i * TICK, requests, prefix_hits=1100.0 * requests, prompt_tokens_cached=None
            ),
        )
    obs = observed(fleet)
    assert obs.hit_rate is None
    assert faults.HITS_EXCEED_QUERIES in obs.faults


def test_a_dead_hit_counter_is_noticed_and_the_second_witness_asked():
    obs = observed(recorded(Fleet(), prefix_hits=7.0))
    assert faults.HIT_COUNTER_DEAD in obs.faults
    assert obs.hit_rate == pytest.approx(0.3)


def test_latency_is_read_from_the_merged_histograms():
    fleet = Fleet()
    for uid, value in (("a", 0.3), ("b", 3.0)):
        for i in range(61):
            sample = a_sample(
                NOON - 900 + i * TICK, 1000.0 + i, ttft=histogram(*[value] * i), tpot=histogram(*[value] * i)
            )
            fleet.record(uid, sample)
    obs = observed(fleet, A, B)
    assert obs.ttft_p95_seconds == pytest.approx(2.0 + 3.0 * 0.9)
    assert obs.tpot_p95_seconds == pytest.approx(4.7)


def test_without_requests_latency_is_unknown():
    assert observed(recorded(Fleet(), ttft=histogram(0.2))).ttft_p95_seconds is None


def test_inter_token_latency_stands_in_for_tpot():
    fleet = Fleet()
    for i in range(61):
        fleet.record("pod-0", a_sample(NOON - 900 + i * TICK, 1000.0 + i, inter_token=histogram(*[0.3] * i)))
    assert observed(fleet).tpot_p95_seconds == pytest.approx(0.1 + 0.4 * 0.95)


def test_prefill_over_decode():
    fleet = Fleet()
    for i in range(61):
        gaps, prefills = histogram(*[0.05] * 10 * i), histogram(*[0.4] * i)
        fleet.record("pod-0", a_sample(NOON - 900 + i * TICK, 1000.0 + i, inter_token=gaps, prefill=prefills))
    obs = observed(fleet)
    assert obs.prefill_decode_ratio == pytest.approx(8.0)
    assert obs.pods[0].prefill_decode_ratio == pytest.approx(8.0)


def test_preemptions_per_finished_request():
    fleet = Fleet()
    for i in range(61):
        fleet.record("pod-0", a_sample(NOON - 900 + i * TICK, 1000.0 + 10.0 * i, preemptions=2.0 * i))
    obs = observed(fleet)
    assert obs.preemptions_per_request == pytest.approx(0.2)
    assert obs.pods[0].preemptions_per_request == pytest.approx(0.2)
    assert obs.pods[0].finished == 80.0


def test_preemptions_while_nothing_finishes_are_not_lost():
    fleet = Fleet()
    for i in range(61):
        fleet.record("pod-0", a_sample(NOON - 900 + i * TICK, 1000.0, preemptions=1.0 * i))
    assert observed(fleet).preemptions_per_request == 8.0


def test_the_shape_tells_how_much_of_its_window_was_seen():
    two = recorded(recorded(Fleet(), "old", seconds=300.0), "new", seconds=60.0)
    assert observed(two, a_pod_state("old"), a_pod_state("new")).shape_seconds == pytest.approx(300.0)
    assert observed(recorded(Fleet(), seconds=900.0)).shape_seconds == pytest.approx(600.0)
    assert observed(Fleet()).shape_seconds == 0.0


def test_a_recent_shape_needs_enough_requests():
    assert observed(recorded(Fleet(), rate=2.0)).recent_input_tokens == pytest.approx(1000.0)
    assert observed(recorded(Fleet(), rate=0.2)).recent_input_tokens is None


def test_requests_still_running_count_half_towards_the_output_length():
    fleet = Fleet()
    fleet.record("pod-0", a_sample(NOON - 15, 100.0, running=0.0))
    fleet.record("pod-0", a_sample(NOON, 110.0, running=20.0, generation_tokens=12_000.0))
    assert observed(fleet).output_tokens == pytest.approx(2000.0 / 20.0)


class TestSteps:
    def test_means_per_step(self):
        steps = observed(recorded(Fleet(), rate=2.0)).pods[0].steps
        assert steps is not None
        assert (steps.steps, steps.seconds_per_step) == (750.0, pytest.approx(0.02))
        assert (steps.prefill_tokens, steps.running, steps.kv_tokens) == (
            pytest.approx(28.0),
            pytest.approx(4.0),
            8000.0,
        )

    def test_an_engine_without_busy_time_must_be_busy_throughout(self):
        steps = observed(recorded(Fleet(), engine_busy_seconds=None)).pods[0].steps
        assert steps is not None
        assert steps.seconds_per_step == pytest.approx(15 / 750)
        assert observed(recorded(Fleet(), engine_busy_seconds=None, running=2.0)).pods[0].steps is None

    def test_an_engine_without_step_count_uses_the_gaps_between_tokens(self):
        fleet = Fleet()
        for i in range(61):
            sample = a_sample(
                NOON - 900 + i * TICK, 1000.0 + 30 * i, engine_steps=None, inter_token=histogram(*[0.05] * i)
            )
            fleet.record("pod-0", sample)
        steps = observed(fleet).pods[0].steps
        assert steps is not None
        assert steps.seconds_per_step == pytest.approx(0.05)
        assert steps.steps == pytest.approx(15.0 / 0.05)

    def test_an_interval_with_a_preemption_teaches_nothing(self):
        fleet = recorded(Fleet())
        fleet.record("pod-0", a_sample(NOON + TICK, 2830.0, preemptions=1.0))
        assert observed(fleet, now=NOON + TICK).pods[0].steps is None

    @pytest.mark.parametrize("missing", ["kv_usage", "generation_tokens", "prompt_tokens_computed"])
    def test_a_missing_feature_teaches_nothing(self, missing):
        assert observed(recorded(Fleet(), **{missing: None})).pods[0].steps is None

    def test_an_interval_with_a_reset_teaches_nothing(self):
        fleet = recorded(Fleet())
        fleet.record("pod-0", a_sample(NOON + TICK, 60.0))
        assert observed(fleet, now=NOON + TICK).pods[0].steps is None


class TestFreshness:
    @pytest.mark.parametrize(
        ("age", "fresh"), [(0.0, True), (31.0, True), (31.5, False), (-5.0, True), (-6.0, False)]
    )
    def test_a_sample_is_fresh_for_two_intervals(self, age, fresh):
        obs = observed(recorded(Fleet()), now=NOON + age)
        assert obs.pods[0].fresh is fresh

    def test_a_silent_pod_keeps_its_rates_but_shows_no_readings(self):
        obs = observed(recorded(Fleet()), now=NOON + 300.0)
        assert obs.rate_60s == pytest.approx(2.0)
        assert (obs.pods[0].running, obs.pods[0].kv_usage) == (None, None)
        assert obs.pods[0].sample_age_seconds == 300.0
        assert faults.STALE in obs.faults

    def test_after_ten_minutes_its_rates_are_unknown(self):
        obs = observed(recorded(Fleet()), now=NOON + 601.0)
        assert (obs.rate_60s, obs.kv_tokens) == (None, None)

    def test_a_ready_pod_never_seen_is_stale(self):
        obs = observed(Fleet())
        assert not obs.pods[0].fresh
        assert obs.faults == {faults.STALE}
        assert obs.rate_60s is None

    def test_a_pod_not_ready_is_not_missed(self):
        assert observed(Fleet(), a_pod_state(phase=PodPhase.PENDING, ready_at=None)).faults == frozenset()

    def test_requests_in_flight_without_any_movement_are_frozen(self):
        fleet = Fleet()
        for i in range(9):
            fleet.record("pod-0", a_sample(NOON - 120 + i * TICK, 100.0))
        obs = observed(fleet)
        assert not obs.pods[0].fresh
        assert faults.FROZEN in obs.faults

    def test_an_idle_pod_is_not_frozen(self):
        fleet = Fleet()
        for i in range(20):
            fleet.record("pod-0", a_sample(NOON - 285 + i * TICK, 100.0, running=0.0))
        assert observed(fleet).pods[0].fresh

    def test_a_draining_pod_still_counts_for_arrivals_and_not_for_load(self):
        obs = observed(two_pods(), A, a_pod_state("b", phase=PodPhase.DRAINING))
        assert obs.rate_60s == pytest.approx(6.0)
        assert obs.running == 4.0


def test_unknown_kv_usage_is_a_fault_and_not_zero():
    obs = observed(recorded(Fleet(), kv_usage=None))
    assert (obs.kv_usage, obs.kv_tokens) == (None, None)
    assert faults.KV_UNKNOWN in obs.faults


def test_unknown_finished_requests_are_a_fault():
    obs = observed(recorded(Fleet(), finished_requests=None))
    assert obs.rate_60s is None
    assert faults.REQUESTS_UNKNOWN in obs.faults


def test_a_counter_reset_is_reported():
    fleet = recorded(Fleet())
    fleet.record("pod-0", a_sample(NOON + TICK, 1.0))
    assert faults.COUNTER_RESET in observed(fleet, now=NOON + TICK).faults
    assert observed(fleet, now=NOON + TICK).rate_60s == pytest.approx(2.0)


def test_faults_of_a_sample_are_passed_on():
    assert "alias:kv_usage" in observed(recorded(Fleet(), faults=frozenset({"alias:kv_usage"}))).faults


def test_the_model_names_of_the_series_are_passed_on():
    assert observed(recorded(Fleet(), model_names=frozenset({"smol"}))).model_names == {"smol"}


def test_an_observation_of_nothing_is_all_unknown():
    fleet = Fleet()
    obs = observed(fleet, a_pod_state(phase=PodPhase.PENDING, ready_at=None))
    assert (obs.ready, obs.pending, obs.rate_60s, obs.waiting, obs.kv_tokens) == (0, 1, None, None, None)

"""The rows M of the case table: what was reported of other operators' metrics, and what ours does instead.

M13 and M16 have a second half in the loop (the live pod list, the condition ModelNameMismatch); here is the pure one.
"""

from dataclasses import replace
from math import nan

import pytest

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals import faults
from kvis_operator.signals.exposition import parse
from kvis_operator.signals.series import Fleet
from observations import (
    NOON,
    TICK,
    Loop,
    a_pod_state,
    a_sample,
    a_spec,
    an_observation,
    blind,
    observed,
    pods,
    recorded,
)

HOUR = 3600.0


def idle_for_an_hour(replicas: int) -> ScalerState:
    """Everything allows shrinking, but for what the test takes away."""
    state = Loop(a_spec(), replicas, now=NOON - HOUR).run(HOUR, rate=0.5, kv=0.02).state
    return replace(state, desired=replicas, down_at=None)


def decided(obs, state: ScalerState):
    return decide(a_spec(), obs, state, now=obs.at)[0]


def quiet(replicas: int, **changes):
    return an_observation(replicas, **({"rate": 0.5, "kv": 0.02} | changes))


def test_the_fixture_would_shrink():
    assert decided(quiet(4), idle_for_an_hour(4)).replicas == 3


def test_m1_the_old_gauge_name_is_accepted_and_noted():
    sample = parse("vllm:gpu_cache_usage_perc 0.4\n", at=NOON)
    assert (sample.kv_usage, sample.faults) == (0.4, {"alias:kv_usage"})
    assert decided(quiet(4, faults=sample.faults), idle_for_an_hour(4)).replicas == 3


def test_m2_the_current_name_alone_is_normal_and_the_absent_alias_is_not_zero():
    sample = parse("vllm:kv_cache_usage_perc 0.4\n", at=NOON)
    assert (sample.kv_usage, sample.faults) == (0.4, frozenset())


def test_m3_absent_kv_gauge_is_not_idle():
    obs = observed(recorded(Fleet(), kv_usage=None, waiting=0.0))
    assert (obs.kv_usage, obs.kv_tokens, obs.waiting) == (None, None, 0.0)
    decision = decided(quiet(4, kv_usage=None, kv_tokens=None, faults=obs.faults), idle_for_an_hour(4))
    assert (decision.replicas, decision.reason) == (4, Reason.HOLD_METRICS_STALE)
    assert "MetricsDegraded" in decision.conditions


def test_m4_a_pod_that_cannot_be_scraped_is_left_out_and_not_averaged_as_zero():
    fleet = recorded(recorded(Fleet(), "a", kv_usage=0.8), "b", seconds=300.0, kv_usage=0.8)
    fleet.record("a", a_sample(NOON + 60, 3000.0, kv_usage=0.8))
    obs = observed(fleet, a_pod_state("a"), a_pod_state("b"), now=NOON + 60)
    assert obs.kv_usage == pytest.approx(0.8)
    assert (obs.pods[1].fresh, obs.pods[1].kv_usage) == (False, None)
    assert faults.STALE in obs.faults


def test_m5_with_no_pod_scrapable_the_replicas_stay():
    decision = decided(blind(quiet(4), 4), idle_for_an_hour(4))
    assert (decision.replicas, decision.reason) == (4, Reason.HOLD_METRICS_STALE)


def test_m6_an_empty_histogram_is_unknown_latency_and_no_requests_is_zero():
    obs = observed(recorded(Fleet(), rate=0.0))
    assert (obs.ttft_p95_seconds, obs.tpot_p95_seconds) == (None, None)
    assert obs.rate_60s == 0.0


def test_m6_a_request_counter_that_is_not_finite_is_unknown():
    sample = parse("vllm:request_success_total NaN\n", at=NOON)
    assert sample.finished_requests is None
    obs = observed(recorded(Fleet(), finished_requests=None))
    assert obs.rate_60s is None


@pytest.mark.parametrize(
    "field", ["rate_15s", "rate_60s", "waiting", "kv_tokens", "input_tokens", "output_tokens", "hit_rate"]
)
@pytest.mark.parametrize("value", [nan, float("inf"), -9.2e18])
def test_m7_a_number_that_is_none_never_reaches_the_replicas(field, value):
    decision = decided(quiet(4, **{field: value}), idle_for_an_hour(4))
    assert decision.replicas == 4
    assert "SignalImplausible" in decision.conditions


def test_m8_an_empty_page_is_unknown_and_not_zero():
    fleet = Fleet()
    for i in range(61):
        fleet.record("pod-0", parse("", at=NOON - 900 + i * TICK))
    obs = observed(fleet)
    assert (obs.rate_60s, obs.waiting, obs.kv_tokens, obs.hit_rate) == (None, None, None, None)
    assert decided(replace(obs, at=NOON), idle_for_an_hour(1)).replicas == 1


def test_m9_hits_over_queries_from_the_dump_of_the_report():
    fleet = Fleet()
    for i in range(41):
        share = i / 40
        queries = f"vllm:gpu_prefix_cache_queries_total {5.12e8 * share}\n"
        text = f"{queries}vllm:gpu_prefix_cache_hits_total {4.57e8 * share}\n"
        sample = parse(text + f"vllm:request_success_total {1000 * share}\n", at=NOON - 600 + i * TICK)
        fleet.record("pod-0", sample)
    obs = observed(fleet)
    assert obs.hit_rate == pytest.approx(0.89, abs=0.005)
    assert obs.hit_queries == pytest.approx(5.12e8)


def test_m9_an_absent_hit_counter_is_unknown_and_not_zero_percent():
    assert observed(recorded(Fleet(), prefix_hits=None)).hit_rate is None


def test_m10_a_restarted_pod_has_no_negative_rate():
    fleet = recorded(Fleet())
    for i in range(1, 5):
        fleet.record("pod-0", a_sample(NOON + i * TICK, 30.0 * i))
    obs = observed(fleet, now=NOON + 60)
    assert obs.rate_60s == pytest.approx(2.0)
    assert obs.input_tokens == pytest.approx(1000.0)


def test_m11_without_queries_the_hit_rate_is_unknown():
    obs = observed(recorded(Fleet(), prefix_queries=5.0, prefix_hits=2.0))
    assert (obs.hit_rate, obs.pods[0].hit_rate) == (None, None)


@pytest.mark.parametrize(("value", "clamped"), [(-0.2, 0.0), (1.3, 1.0)])
def test_m12_a_usage_out_of_range_is_clamped_and_flagged(value, clamped):
    sample = parse(f"vllm:kv_cache_usage_perc {value}\n", at=NOON)
    assert (sample.kv_usage, sample.faults) == (clamped, {faults.KV_USAGE_OUT_OF_RANGE})
    decision = decided(quiet(4, faults=sample.faults), idle_for_an_hour(4))
    assert (decision.replicas, decision.conditions) == (4, {"SignalImplausible"})


def test_m13_series_of_a_deleted_pod_do_not_count():
    fleet = recorded(recorded(Fleet(), "alive", rate=2.0), "deleted", rate=50.0)
    assert observed(fleet, a_pod_state("alive")).rate_60s == pytest.approx(2.0)


def test_m14_an_old_low_sample_attracts_no_scale_down():
    fleet = recorded(recorded(Fleet(), "a"), "b", seconds=300.0, running=0.0, kv_usage=0.0)
    fleet.record("a", a_sample(NOON + 120, 3000.0))
    obs = observed(fleet, a_pod_state("a"), a_pod_state("b"), now=NOON + 120)
    assert obs.pods[1].running is None
    state = replace(idle_for_an_hour(2), desired=2)
    assert decided(obs, state).replicas == 2


def test_m15_a_sample_300_ms_late_does_not_freeze_a_service_of_one_pod():
    obs = observed(recorded(Fleet()), now=NOON + 2 * TICK + 0.3)
    assert obs.pods[0].fresh
    assert faults.STALE not in obs.faults


def test_m16_the_model_names_of_the_series_are_there_to_be_compared():
    sample = parse('vllm:num_requests_running{model_name="other"} 0\n', at=NOON)
    fleet = recorded(Fleet(), model_names=sample.model_names)
    assert observed(fleet).model_names == {"other"}


def test_m17_no_usage_on_an_idle_pod_says_nothing_about_its_cache():
    obs = observed(recorded(Fleet(), kv_usage=0.0, running=0.0))
    assert obs.kv_usage == 0.0
    assert obs.hit_rate == pytest.approx(0.3)


def test_m18_the_view_per_pod_shows_the_cold_one():
    fleet = recorded(Fleet(), "hot", rate=9.0)
    for i in range(61):
        fleet.record(
            "cold",
            a_sample(NOON - 900 + i * TICK, 1000.0 + 15.0 * i, prefix_hits=0.0, prompt_tokens_cached=None),
        )
    obs = observed(fleet, a_pod_state("hot"), a_pod_state("cold"))
    assert [pod.hit_rate for pod in obs.pods] == [pytest.approx(0.3), 0.0]
    assert obs.hit_rate == pytest.approx(0.27)


def test_m19_without_kv_metrics_the_queue_alone_may_grow():
    crowd = pods(2, kv_usage=None, waiting=5.0)
    loop = Loop(a_spec(), 2).run(
        45, rate=4.0, kv=None, waiting=10.0, pods=crowd, faults=frozenset({faults.KV_UNKNOWN})
    )
    assert (loop.replicas, loop.moves[-1].reason) == (3, Reason.BACKLOG)

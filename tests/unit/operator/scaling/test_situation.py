from dataclasses import replace

import pytest

from kvis_operator.scaling.situation import sanitized, situation
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.observation import Observation, PodPhase
from observations import NOON, a_pod, a_spec, an_observation, blind, pods


def facts(obs: Observation, state: ScalerState | None = None, **spec):
    return situation(a_spec(**spec), obs, state or ScalerState.initial(), NOON)


def pending(age: float = 10.0, name: str = "new"):
    return a_pod(name, phase=PodPhase.PENDING, fresh=False, age_seconds=age)


def with_pods(*more, ready: int = 2) -> Observation:
    obs = an_observation(ready)
    return replace(obs, pods=(*obs.pods, *more))


def test_current_is_what_was_decided():
    assert facts(an_observation(2), ScalerState.initial(5)).current == 5


def test_current_of_an_unknown_past_is_what_exists():
    obs = with_pods(pending(), a_pod("bad", phase=PodPhase.FAILED), a_pod("going", phase=PodPhase.DRAINING))
    assert facts(obs).current == 4


def test_a_service_has_had_replicas_for_as_long_as_the_oldest_has_been_ready():
    ready = [
        a_pod(name, age_seconds=age, load_seconds=load)
        for name, age, load in (("a", 500.0, 90.0), ("b", 400.0, 30.0))
    ]
    obs = with_pods(
        *ready, pending(9000.0), a_pod("going", phase=PodPhase.DRAINING, age_seconds=9000.0), ready=0
    )
    assert facts(obs).served_seconds == 410.0


def test_a_replica_whose_start_was_not_seen_took_as_long_as_usual():
    obs = with_pods(
        a_pod("seen", age_seconds=200.0, load_seconds=150.0), a_pod("unseen", age_seconds=500.0), ready=0
    )
    assert facts(obs).served_seconds == 350.0


def test_a_service_without_a_ready_replica_has_had_none():
    assert facts(with_pods(pending(), ready=0)).served_seconds == 0.0


def test_replicas_not_serving_yet_are_pending():
    assert facts(with_pods(pending()), ScalerState.initial(3)).pending
    assert not facts(with_pods(), ScalerState.initial(2)).pending


def test_replicas_without_a_pod_yet_are_pending_since_the_growth():
    state = replace(ScalerState.initial(3), up_at=NOON - 30)
    assert facts(with_pods(), state).pending
    assert not facts(with_pods(), replace(state, up_at=NOON - 2000)).pending
    assert facts(with_pods(), ScalerState.initial(3)).pending


@pytest.mark.parametrize(("age", "is_pending", "is_stuck"), [(1199.0, True, False), (1200.0, False, True)])
def test_a_replica_that_never_starts_is_not_awaited_for_ever(age, is_pending, is_stuck):
    seen = facts(with_pods(pending(age)), ScalerState.initial(3))
    assert (seen.pending, seen.stuck) == (is_pending, is_stuck)


def test_one_stuck_replica_does_not_hide_a_young_one():
    seen = facts(with_pods(pending(5000.0, "a"), pending(10.0, "b")), ScalerState.initial(4))
    assert (seen.pending, seen.stuck) == (True, True)


def test_the_deadline_is_at_least_a_quarter_of_an_hour():
    seen = facts(with_pods(pending(899.0)), ScalerState.initial(3), start_seconds=1.0)
    assert seen.pending


@pytest.mark.parametrize(("lost", "is_blind"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_half_of_the_ready_pods_must_be_seen(lost, is_blind):
    assert facts(blind(an_observation(4), lost)).blind is is_blind


def test_a_service_without_ready_pods_is_blind():
    assert facts(an_observation(0)).blind


def test_trust_needs_every_pod_and_no_doubt():
    assert facts(an_observation(4)).trusted
    assert not facts(blind(an_observation(4), 1)).trusted
    assert not facts(an_observation(4, faults=frozenset({"not_finite:kv_usage"}))).trusted
    assert facts(an_observation(4, faults=frozenset({"alias:kv_usage"}))).trusted


def test_a_budget_bounds_growth_but_never_the_minimum():
    assert facts(an_observation(2), gpu_budget_replicas=4).upper == 4
    assert facts(an_observation(2), gpu_budget_replicas=40).upper == 16
    assert facts(an_observation(2), gpu_budget_replicas=1, min_replicas=2).upper == 2


def test_a_measured_start_time_wins_within_bounds():
    assert facts(an_observation(pods=pods(2, load_seconds=90.0))).start_seconds == 90.0
    assert facts(an_observation(pods=pods(2, load_seconds=9999.0))).start_seconds == 360.0
    assert facts(an_observation(pods=pods(2, load_seconds=1.0))).start_seconds == 60.0
    assert facts(an_observation(pods=pods(2, load_seconds=0.0))).start_seconds == 120.0
    assert facts(an_observation(2)).start_seconds == 120.0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_impossible_numbers_become_unknown_and_say_so(value):
    clean = sanitized(an_observation(2, rate=value, pods=pods(2, waiting=value, age_seconds=value)))
    assert (clean.rate_60s, clean.pods[0].waiting) == (None, None)
    assert "not_finite:rate_60s" in clean.faults


def test_a_hit_rate_above_one_is_unknown():
    assert sanitized(an_observation(hit_rate=1.01)).hit_rate is None
    assert sanitized(an_observation(hit_rate=1.0)).hit_rate == 1.0


def test_a_clean_observation_is_left_as_it_is():
    obs = an_observation(3)
    assert sanitized(obs) is obs

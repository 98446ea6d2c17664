"""What holds for every input of the scaler and of the cap law, however absurd."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvis_operator.scaling.capacity import Mix, Replica, capacity, itl, rate
from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.spec import StepTime
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.observation import Observation, PodPhase
from kvis_operator.signals.series import Fleet
from kvis_operator.tuning.admission import CapSpec, CapState, decide_cap
from observations import (
    KV,
    NOON,
    TICK,
    Loop,
    a_pod,
    a_pod_state,
    a_sample,
    a_spec,
    an_observation,
    blind,
    observed,
    pods,
)  # fmt: skip

EXAMPLES = settings(max_examples=60, deadline=None)
anything = st.one_of(
    st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-5, 10**6).map(float)
)
counts = st.integers(1, 16)
rates = st.floats(0.0, 200.0)


@st.composite
def some_pods(draw: st.DrawFn) -> tuple[Any, ...]:
    phases = draw(st.lists(st.sampled_from(PodPhase), max_size=8))
    return tuple(
        a_pod(
            f"pod-{i}",
            phase=phase,
            fresh=draw(st.booleans()),
            warm=draw(st.booleans()),
            running=draw(anything),
            waiting=draw(anything),
            kv_usage=draw(anything),
            age_seconds=draw(st.floats(0, 1e6)),
        )
        for i, phase in enumerate(phases)
    )


@st.composite
def any_observation(draw: st.DrawFn) -> Observation:
    fields = (
        "rate_15s", "rate_60s", "rate_180s", "input_tokens", "output_tokens", "recent_input_tokens",
        "recent_output_tokens", "hit_rate", "running", "waiting", "kv_tokens", "kv_usage", "kv_capacity_tokens",
        "ttft_p95_seconds", "tpot_p95_seconds", "ttft_p95_at_least_seconds", "preemptions_per_request",
    )  # fmt: skip
    return Observation(at=NOON, pods=draw(some_pods()), **{name: draw(anything) for name in fields})


@EXAMPLES
@given(
    obs=any_observation(),
    low=counts,
    more=st.integers(0, 15),
    desired=st.one_of(st.none(), st.integers(0, 40)),
)
def test_the_result_is_within_bounds_for_every_input(obs, low, more, desired):
    decision, state = decide(
        a_spec(min_replicas=low, max_replicas=low + more), obs, ScalerState.initial(desired), now=NOON
    )
    assert low <= decision.replicas <= low + more
    assert state.desired == decision.replicas
    assert len(decision.victims) <= max(0, decision.current - decision.replicas)


@EXAMPLES
@given(obs=any_observation(), desired=st.integers(1, 16))
def test_the_state_round_trips_for_every_input(obs, desired):
    _, state = decide(a_spec(), obs, ScalerState.initial(desired), now=NOON)
    assert ScalerState.restore(json.loads(json.dumps(state.to_json()))) == state


@EXAMPLES
@given(obs=any_observation(), desired=st.integers(1, 16))
def test_deciding_again_at_once_changes_nothing(obs, desired):
    first, state = decide(a_spec(), obs, ScalerState.initial(desired), now=NOON)
    again, after = decide(a_spec(), obs, state, now=NOON)
    assert again.replicas == first.replicas
    assert after.desired == state.desired


def a_settled_state(replicas: int) -> ScalerState:
    state = Loop(a_spec(), replicas, now=NOON - 3600.0).run(3600.0, rate=0.5, kv=0.02).state
    return replace(state, desired=replicas, up_at=None, down_at=None)


SETTLED = {replicas: a_settled_state(replicas) for replicas in (2, 5, 9)}


@EXAMPLES
@given(
    replicas=st.sampled_from(sorted(SETTLED)),
    load=st.floats(0.0, 60.0),
    kv=st.floats(0.0, 1.0),
    waiting=st.floats(0.0, 300.0),
    factor=st.floats(1.0, 4.0),
)
def test_more_load_never_means_fewer_replicas(replicas, load, kv, waiting, factor):
    def replicas_for(scale: float) -> int:
        obs = an_observation(
            replicas,
            rate=load * scale,
            kv_tokens=kv * KV * replicas * scale,
            kv=min(1.0, kv * scale),
            waiting=waiting * scale,
        )
        return decide(a_spec(), obs, SETTLED[replicas], now=NOON)[0].replicas

    assert replicas_for(factor) >= replicas_for(1.0)


@EXAMPLES
@given(
    replicas=st.sampled_from(sorted(SETTLED)),
    load=st.floats(0.0, 60.0),
    kv=st.floats(0.0, 1.0),
    waiting=st.floats(0.0, 300.0),
    spare=st.floats(0.0, 20.0),
    more=st.floats(0.0, 5.0),
    rho=st.floats(0.5, 0.85),
)
@example(
    replicas=9, load=38.5, kv=0.0, waiting=95.0, spare=1.75, more=0.5, rho=0.5
)  # the queue ties with compute
@example(replicas=5, load=21.0, kv=1.0, waiting=0.0, spare=0.5, more=0.5, rho=0.5)  # compute ties with memory
def test_a_wider_margin_never_means_fewer_replicas(replicas, load, kv, waiting, spare, more, rho):
    obs = an_observation(replicas, rate=load, kv=kv, waiting=waiting)

    def replicas_for(**margin: float) -> int:
        return decide(a_spec(**margin), obs, SETTLED[replicas], now=NOON)[0].replicas

    assert replicas_for(spare_replicas=spare + more) >= replicas_for(spare_replicas=spare)
    assert replicas_for(rho_up=rho, rho_down=rho - 0.05) >= replicas_for()


@EXAMPLES
@given(
    replicas=st.sampled_from(sorted(SETTLED)),
    lost=st.integers(1, 9),
    load=st.floats(0.0, 60.0),
    kv=st.floats(0.0, 0.7),
)
def test_losing_samples_never_lowers_replicas(replicas, lost, load, kv):
    obs = an_observation(replicas, rate=load, kv=kv)
    seen, _ = decide(a_spec(), obs, SETTLED[replicas], now=NOON)
    missing, _ = decide(a_spec(), blind(obs, min(lost, replicas)), SETTLED[replicas], now=NOON)
    assert missing.replicas >= min(replicas, seen.replicas)
    assert missing.replicas >= replicas


@EXAMPLES
@given(
    dropped=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=200),
    load=st.floats(0.1, 8.0),
)
def test_removing_scrapes_from_the_record_never_shrinks(dropped, load):
    fleet = Fleet()
    for pod in range(4):
        for i in range(61):
            if (pod, i) not in dropped:
                sample = a_sample(NOON - 900 + i * TICK, 1000.0 + load * i * TICK / 4, kv_capacity_tokens=KV)
                fleet.record(f"pod-{pod}", sample)
    states = [a_pod_state(f"pod-{i}") for i in range(4)]
    assert decide(a_spec(), observed(fleet, *states), ScalerState.initial(4), now=NOON)[0].replicas >= 4


@EXAMPLES
@given(rates_seen=st.lists(rates, min_size=1, max_size=40))
def test_nothing_shrinks_within_the_memory_of_a_need(rates_seen):
    loop = Loop(a_spec(max_replicas=64), 60)
    for load in rates_seen:
        loop.tick(rate=load, kv=0.01)
        assert loop.replicas >= 60


@EXAMPLES
@given(
    reason_to_hold=st.sampled_from(["alert", "pending", "stale", "after_up", "after_down"]),
    load=st.floats(0.0, 20.0),
)
def test_nothing_shrinks_inside_any_hold(reason_to_hold, load):
    spec, state, obs = a_spec(), SETTLED[5], an_observation(5, rate=load, kv=0.02)
    match reason_to_hold:
        case "alert":
            spec = a_spec(alert_floor=1)
        case "pending":
            obs = replace(obs, pods=(*pods(4), a_pod("new", phase=PodPhase.PENDING, age_seconds=5.0)))
        case "stale":
            obs = blind(obs, 1)
        case "after_up":
            state = replace(state, up_at=NOON - 299.0)
        case "after_down":
            state = replace(state, down_at=NOON - 59.0)
    assert decide(spec, obs, state, now=NOON)[0].replicas >= 5


positive = st.floats(1e-6, 1.0)


@EXAMPLES
@given(
    step=st.builds(StepTime, a=positive, p=st.floats(0, 1e-3), d=st.floats(1e-7, 1e-2), c=st.floats(0, 1e-6)),
    mix=st.builds(Mix, st.floats(1, 50_000), st.floats(1, 5_000), st.floats(0, 1)),
    kv_tokens=st.floats(1e3, 1e7),
    slo=st.one_of(st.none(), st.floats(1e-3, 10.0)),
)
def test_the_best_batch_is_feasible_and_the_next_is_not(step, mix, kv_tokens, slo):
    replica = Replica(step, kv_tokens, 1024, slo)
    best = capacity(replica, mix)
    assert best.batch <= best.batch_max or not best.feasible
    if not best.feasible:
        return
    assert abs(best.rate * mix.output_tokens * best.itl_seconds - best.batch) <= 1e-6 * best.batch
    assert best.rate >= rate(step, mix, 1) * (1 - 1e-9)
    if slo is not None:
        assert best.itl_seconds <= 0.9 * slo * (1 + 1e-9)
        assert best.batch == best.batch_max or itl(step, mix, best.batch + 1) > 0.9 * slo * (1 - 1e-9)


@EXAMPLES
@given(
    cap=st.integers(1, 512),
    readings=st.tuples(anything, anything, anything, anything, anything),
    minimum=st.integers(1, 64),
    maximum=st.one_of(st.none(), st.integers(64, 512)),
    moved=st.one_of(st.none(), st.floats(NOON - 1e4, NOON + 1e4)),
)
def test_the_cap_is_within_its_bounds_for_every_input(cap, readings, minimum, maximum, moved):
    running, waiting, usage, preemptions, finished = readings
    pod = a_pod(
        max_num_active_seqs=cap,
        running=running,
        waiting=waiting,
        kv_usage=usage,
        preemptions_per_request=preemptions,
        finished=finished,
    )
    spec = CapSpec(256, minimum=minimum, maximum=maximum)
    decision, state = decide_cap(spec, pod, an_observation(), CapState(moved_at=moved), now=NOON)
    assert decision.cap is not None
    assert minimum <= decision.cap <= spec.upper
    assert CapState.restore(json.loads(json.dumps(state.to_json()))) == state
    again, _ = decide_cap(
        spec, replace(pod, max_num_active_seqs=decision.cap), an_observation(), state, now=NOON
    )
    assert again.cap == decision.cap

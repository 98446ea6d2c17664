"""Conservation laws of whole runs, whatever the controller does and whatever breaks."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvis_sim.cluster import simulate
from kvis_sim.controller import StaticReplicas
from kvis_sim.scenario import Fault, FaultKind, RouterKind
from kvis_sim.workload import Request
from sim_builders import Scripted, a_scenario

pytestmark = pytest.mark.slow

FAULTS = st.lists(
    st.builds(
        Fault,
        kind=st.sampled_from(list(FaultKind)),
        start=st.floats(0.0, 250.0),
        duration=st.floats(1.0, 200.0),
        pods=st.integers(1, 3),
    ),
    max_size=3,
    unique_by=lambda fault: fault.start,
)


def poisson(rate, prompt, output, families):
    def requests(rng: random.Random):
        at = 0.0
        while (at := at + rng.expovariate(rate)) < 300.0:
            length = rng.randint(1, prompt)
            family = rng.randrange(families)
            blocks = tuple(range(family * 1000, family * 1000 + length // 32))
            yield Request(at, length, rng.randint(1, output), blocks)

    return requests


@settings(max_examples=25, deadline=None)
@given(
    rate=st.sampled_from([0.5, 4.0, 12.0]),
    router=st.sampled_from(list(RouterKind)),
    script=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    faults=FAULTS,
    capacity=st.sampled_from([3_000, 100_000]),
    seed=st.integers(0, 100),
)
def test_arrivals_are_finished_rejected_lost_or_still_there(rate, router, script, faults, capacity, seed):
    scenario = a_scenario(
        requests=poisson(rate, 800, 200, 5),
        duration=300.0,
        settle=30.0,
        kv_capacity_tokens=capacity,
        router=router,
        faults=tuple(faults),
        noise=0.1,
        drain_grace=20.0,
    )
    controller = Scripted([(50.0 * k, replicas) for k, replicas in enumerate(script)])
    result = simulate(scenario, controller, seed=seed)
    run = result.whole_run
    assert run.arrived == run.finished + run.rejected + run.lost + run.in_flight
    assert result.offered == result.finished + result.rejected + result.lost + result.unfinished
    assert 0 <= result.good <= result.finished
    assert run.in_flight >= 0
    assert result.unfinished >= 0
    assert all(1 <= point.desired <= scenario.max_replicas for point in result.timeline)


@settings(max_examples=10, deadline=None)
@given(rate=st.sampled_from([1.0, 6.0]), capacity=st.sampled_from([2_000, 100_000]), seed=st.integers(0, 100))
def test_tokens_emitted_are_the_tokens_asked_for(rate, capacity, seed):
    scenario = a_scenario(
        requests=poisson(rate, 400, 100, 5),
        duration=300.0,
        settle=5000.0,
        kv_capacity_tokens=capacity,
        router=RouterKind.PREFIX_AWARE,
    )
    result = simulate(scenario, StaticReplicas(2), seed=seed)
    run = result.whole_run
    assert run.in_flight == 0
    assert run.generated_tokens == run.output_tokens
    if not result.preemptions:
        cached = result.prompt_tokens * (result.hit_rate or 0.0)
        assert result.computed_prompt_tokens + cached == pytest.approx(result.prompt_tokens, abs=1)


@settings(max_examples=4, deadline=None)
@given(rate=st.sampled_from([2.0, 8.0]), seed=st.integers(0, 100))
def test_littles_law_holds_between_scraped_gauges_and_measured_times(rate, seed):
    """Mean requests inside, as scraped every half second, is arrival rate times mean time inside."""
    scenario = a_scenario(requests=poisson(rate, 800, 200, 5), duration=300.0, settle=60.0)
    controller = Scripted([(0.0, 2)], interval=0.5)
    run = simulate(scenario, controller, seed=seed).whole_run
    inside = [
        sum(sample.running + sample.waiting for sample in samples.values())
        for _, _, samples in controller.ticks
    ]
    mean_inside = sum(inside) / len(inside)
    assert run.in_flight == 0
    assert mean_inside == pytest.approx(run.sojourn_seconds / run.end, rel=0.05)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 100), replicas=st.integers(1, 4))
def test_more_replicas_never_serve_fewer_well_at_the_same_load(seed, replicas):
    scenario = a_scenario(requests=poisson(12.0, 800, 200, 5), duration=300.0, initial_replicas=replicas)
    more = a_scenario(requests=poisson(12.0, 800, 200, 5), duration=300.0, initial_replicas=replicas + 2)
    few = simulate(scenario, StaticReplicas(replicas), seed=seed)
    many = simulate(more, StaticReplicas(replicas + 2), seed=seed)
    assert many.good >= few.good

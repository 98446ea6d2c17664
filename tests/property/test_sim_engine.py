"""The engine's closed forms against counting step by step, and what must hold whatever happens."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvis_sim.engine import NEVER, Replica
from kvis_sim.paged_kv import PagedKV
from kvis_sim.sequences import EngineLimits, Sequence
from kvis_sim.step_laws import Additive, MaxForm
from kvis_sim.workload import Request
from stepwise_engine import StepwiseEngine

BLOCK = 4
LAWS = [
    Additive(0.01, 0.001, 0.0005, 0.00001),
    Additive(0.01, 0.001, 0.0005, 0.00001, quadratic=1e-5),
    MaxForm(0.01, 0.002, 0.0005, 0.00001, prefill_floor=0.015),
]


class Recorder:
    def __init__(self) -> None:
        self.finished_at: dict[Request, tuple[float, float]] = {}

    def finished(self, sequence: Sequence, now: float) -> None:
        self.finished_at[sequence.request] = (sequence.first_at, now)


@st.composite
def request_lists(draw):
    count = draw(st.integers(1, 12))
    at, found = 0.0, []
    for k in range(count):
        at += draw(st.sampled_from([0.0, 0.004, 0.03, 0.5])) + k * 1e-7
        prompt, output = draw(st.integers(1, 40)), draw(st.integers(1, 30))
        family, full = draw(st.integers(0, 2)), prompt // BLOCK
        known = draw(st.integers(0, full))
        blocks = tuple(family * 100 + i for i in range(known))
        found.append(Request(at, prompt, output, blocks))
    return found


def run_closed_form(law, total_blocks, limits, requests):
    recorder = Recorder()
    replica = Replica(law, PagedKV(total_blocks, BLOCK), limits, recorder, random.Random(0))
    for request in requests:
        while replica.next_time <= request.at:
            replica.step_end()
        replica.add(Sequence(request), request.at)
    while replica.next_time < NEVER:
        replica.step_end()
        check_memory(replica)
    return recorder, replica


def check_memory(replica):
    kv = replica.kv
    assert kv.in_use(replica.step) + kv.idle_blocks <= kv.total_blocks
    assert kv.known_in_use >= 0


@settings(max_examples=400, deadline=None)
@given(
    requests=request_lists(),
    law=st.sampled_from(LAWS),
    total_blocks=st.sampled_from([20, 30, 1000]),
    seqs=st.sampled_from([1, 3, 8]),
    batch=st.sampled_from([8, 16, 64]),
)
def test_closed_forms_equal_counting_step_by_step(requests, law, total_blocks, seqs, batch):
    limits = EngineLimits(max_num_seqs=seqs, max_num_batched_tokens=batch)
    recorder, replica = run_closed_form(law, total_blocks, limits, requests)
    yardstick = StepwiseEngine(law, total_blocks, BLOCK, seqs, batch)
    for job in yardstick.run(requests):
        first, end = recorder.finished_at[job.request]
        assert first == pytest.approx(job.first_at, rel=1e-9)
        assert end == pytest.approx(job.finished_at, rel=1e-9)
    meter = replica.meter
    assert (meter.preemptions, meter.prefix_hits, meter.prefix_queries) == (
        yardstick.preemptions,
        yardstick.hits,
        yardstick.queries,
    )


@settings(max_examples=200, deadline=None)
@given(requests=request_lists(), total_blocks=st.sampled_from([20, 1000]))
def test_every_token_is_emitted_once_and_everybody_finishes(requests, total_blocks):
    recorder, replica = run_closed_form(LAWS[0], total_blocks, EngineLimits(4, 16), requests)
    assert len(recorder.finished_at) == len(requests) == replica.meter.finished
    assert replica.meter.generated_tokens == sum(r.output for r in requests)
    assert replica.meter.prompt_tokens == sum(r.prompt for r in requests)
    assert replica.in_flight == replica.queued_tokens == 0


@settings(max_examples=200, deadline=None)
@given(requests=request_lists())
def test_an_empty_replica_holds_only_idle_cache(requests):
    _, replica = run_closed_form(LAWS[0], 30, EngineLimits(4, 16), requests)
    assert replica.kv.in_use(replica.step) == 0


@settings(max_examples=100, deadline=None)
@given(requests=request_lists(), at=st.floats(0.0, 3.0))
def test_looking_at_a_stretch_under_way_never_counts_beyond_its_end(requests, at):
    recorder = Recorder()
    replica = Replica(LAWS[0], PagedKV(1000, BLOCK), EngineLimits(4, 16), recorder, random.Random(0))
    for request in requests:
        while replica.next_time <= request.at:
            replica.step_end()
        replica.add(Sequence(request), request.at)
    while replica.next_time <= at:
        replica.step_end()
    before = replica.meter.steps + replica.steps_done(at)
    if replica.next_time < NEVER:
        replica.step_end()
        assert before <= replica.meter.steps

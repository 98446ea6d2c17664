"""What the scheduler puts into a step, rule by rule, and its promises for any workload."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvis_runtime.engine.request import FinishedReason
from kvis_runtime.engine.scheduler import Scheduler
from scheduling.builders import a_sequence, one_step, run_to_end, some_limits


def a_scheduler(*sequences, **limits):
    scheduler = Scheduler(some_limits(**limits))
    for sequence in sequences:
        scheduler.add(sequence)
    return scheduler


def names(chunks):
    return [(chunk.sequence.request.request_id, chunk.count) for chunk in chunks]


def test_a_long_prompt_is_computed_in_chunks_of_the_budget():
    scheduler = a_scheduler(a_sequence(prompt=50), max_num_batched_tokens=20)
    assert [names(one_step(scheduler)[0]) for _ in range(4)] == [
        [("a", 20)],
        [("a", 20)],
        [("a", 10)],
        [("a", 1)],
    ]


def test_decodes_come_before_prompts():
    scheduler = a_scheduler(a_sequence("a", prompt=4))
    one_step(scheduler)
    scheduler.add(a_sequence("b", tokens=range(100, 160)))
    assert names(one_step(scheduler)[0]) == [("a", 1), ("b", 31)]


def test_requests_are_admitted_in_order_of_arrival():
    scheduler = a_scheduler(a_sequence("long", prompt=60), a_sequence("short", prompt=2), num_blocks=16)
    assert names(one_step(scheduler)[0]) == [("long", 32)]
    assert [s.request.request_id for s in scheduler.waiting] == ["short"]


def test_the_newest_is_preempted_when_a_decode_finds_no_block():
    old = a_sequence("old", tokens=range(8), output=20)
    new = a_sequence("new", tokens=range(100, 107), output=20)
    scheduler = a_scheduler(old, new, num_blocks=5, max_model_len=20, prefix_caching=False)
    while not scheduler.counters.preemptions:
        one_step(scheduler)
    assert scheduler.running == [old]
    assert list(scheduler.waiting) == [new]
    assert new.blocks == []


def test_a_preempted_sequence_keeps_its_tokens_and_finishes():
    old = a_sequence("old", tokens=range(8), output=12)
    new = a_sequence("new", tokens=range(100, 107), output=12)
    scheduler = a_scheduler(old, new, num_blocks=5, max_model_len=20)
    outputs = run_to_end(scheduler)
    assert scheduler.counters.preemptions > 0
    assert sum(len(o.new_token_ids) for o in outputs if o.request_id == "new") == 12


def test_a_lower_cap_admits_nobody_and_stops_nobody():
    scheduler = a_scheduler(*(a_sequence(name, output=8) for name in "abcd"))
    one_step(scheduler)
    scheduler.set_cap(2)
    scheduler.add(a_sequence("e"))
    chunks, _ = one_step(scheduler)
    assert len(chunks) == 4
    assert len(scheduler.waiting) == 1


def test_a_raised_cap_admits_in_the_next_step():
    scheduler = a_scheduler(*(a_sequence(name) for name in "abcd"))
    scheduler.set_cap(1)
    assert len(one_step(scheduler)[0]) == 1
    scheduler.set_cap(3)
    assert len(one_step(scheduler)[0]) == 3


def test_the_cap_stays_between_one_and_the_ceiling():
    scheduler = a_scheduler(max_num_seqs=8)
    assert (scheduler.set_cap(0), scheduler.set_cap(99)) == (1, 8)


def test_requests_that_arrive_together_share_their_prefix():
    shared = list(range(16))
    scheduler = a_scheduler(a_sequence("a", tokens=[*shared, 50]), a_sequence("b", tokens=[*shared, 60]))
    assert names(one_step(scheduler)[0]) == [("a", 17), ("b", 1)]


def test_another_salt_shares_nothing():
    scheduler = a_scheduler(a_sequence("a", prompt=9, salt="x"), a_sequence("b", prompt=9, salt="y"))
    assert names(one_step(scheduler)[0]) == [("a", 9), ("b", 9)]


def test_a_fully_cached_prompt_still_computes_its_last_block():
    scheduler = a_scheduler(a_sequence("a", prompt=8))
    run_to_end(scheduler)
    scheduler.add(a_sequence("b", prompt=8))
    assert names(one_step(scheduler)[0]) == [("b", 4)]


def test_without_prefix_caching_nothing_is_found_or_counted():
    scheduler = a_scheduler(a_sequence("a"), a_sequence("b"), prefix_caching=False)
    run_to_end(scheduler)
    assert (scheduler.counters.prefix_queries, scheduler.counters.prefix_hits) == (0, 0)
    assert scheduler.pool.free == scheduler.pool.total


def test_a_reset_cache_finds_nothing():
    scheduler = a_scheduler(a_sequence("a", prompt=9))
    run_to_end(scheduler)
    scheduler.reset_prefix_cache()
    scheduler.add(a_sequence("b", prompt=9))
    assert names(one_step(scheduler)[0]) == [("b", 9)]


def test_hits_and_queries_are_counted_once_per_request():
    scheduler = a_scheduler(a_sequence("a", prompt=9), a_sequence("b", prompt=9))
    run_to_end(scheduler)
    assert (scheduler.counters.prefix_queries, scheduler.counters.prefix_hits) == (18, 8)


def test_a_stop_token_ends_the_request():
    scheduler = a_scheduler(a_sequence("a", output=50, stop=frozenset({1000})))
    _, outputs = one_step(scheduler, token=1000)
    assert outputs[0].finished_reason is FinishedReason.STOP


def test_the_last_allowed_token_ends_the_request_by_length():
    outputs = run_to_end(a_scheduler(a_sequence("a", output=3)))
    assert [o.finished_reason for o in outputs] == [None, None, FinishedReason.LENGTH]


def test_an_aborted_request_frees_its_blocks():
    scheduler = a_scheduler(a_sequence("a"), prefix_caching=False)
    one_step(scheduler)
    assert scheduler.abort("a") is not None
    assert scheduler.pool.referenced == 0


def test_aborting_an_unknown_request_is_no_error():
    assert a_scheduler().abort("nobody") is None


@st.composite
def workloads(draw):
    limits = some_limits(
        num_blocks=draw(st.integers(8, 40)),
        max_model_len=32,
        max_num_seqs=draw(st.integers(1, 8)),
        max_num_batched_tokens=draw(st.integers(8, 40)),
        prefix_caching=draw(st.booleans()),
    )
    # Few distinct first tokens, so that prefixes are often shared.
    prompts = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 31)), min_size=1, max_size=20))
    sequences = [
        a_sequence(
            str(index),
            tokens=[kind * 1000 + position for position in range(length)],
            output=draw(st.integers(1, 20)),
            limits=limits,
        )
        for index, (kind, length) in enumerate(prompts)
    ]
    return limits, sequences, draw(st.lists(st.integers(1, 9), max_size=30))


@settings(max_examples=150, deadline=None)
@given(workloads())
def test_any_workload_keeps_the_limits_and_ends_with_all_blocks_given_back(workload):
    limits, sequences, caps = workload
    scheduler = Scheduler(limits)
    finished = []
    arrivals, caps = list(sequences), list(caps)
    for _ in range(5_000):
        if arrivals:
            scheduler.add(arrivals.pop(0))
        if caps:
            scheduler.set_cap(caps.pop(0))
        running_before = len(scheduler.running)
        chunks, outputs = one_step(scheduler)
        assert sum(chunk.count for chunk in chunks) <= limits.max_num_batched_tokens
        assert len(chunks) <= max(scheduler.cap, running_before)
        assert all(len(c.sequence.blocks) * limits.block_size >= c.end for c in chunks if c.sequence.blocks)
        finished += [o.request_id for o in outputs if o.finished_reason]
        if not (arrivals or scheduler.running or scheduler.waiting):
            break
    assert sorted(finished, key=int) == [s.request.request_id for s in sequences]
    assert scheduler.pool.referenced == 0


@settings(max_examples=100, deadline=None)
@given(workloads())
def test_every_step_with_work_computes_something(workload):
    limits, sequences, _ = workload
    scheduler = Scheduler(limits)
    for sequence in sequences:
        scheduler.add(sequence)
    while scheduler.running or scheduler.waiting:
        assert one_step(scheduler)[0]


@settings(max_examples=100, deadline=None)
@given(workloads())
def test_the_oldest_request_is_never_preempted(workload):
    limits, sequences, _ = workload
    scheduler = Scheduler(limits)
    for sequence in sequences:
        scheduler.add(sequence)
    run_to_end(scheduler)
    assert sequences[0].preemptions == 0

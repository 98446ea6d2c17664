from demo.load import Tally, quantile
from demo.summary import broken_promises, cap_changes, summarise
from demo.traffic import Phase, arrivals, read_prompts
from demo.watch import Look, replica_history


def a_look(at: float, *, replicas: int = 1, ready: int = 1, caps: dict[str, int] | None = None) -> Look:
    return Look(
        at=at,
        replicas=replicas,
        ready=ready,
        hit_rate=None,
        kv_usage=None,
        waiting=None,
        caps=caps or {},
        decision="",
    )


def a_good_run() -> list[Look]:
    return [a_look(0, caps={"a": 8}), a_look(2, replicas=2, ready=2, caps={"a": 6, "b": 8}), a_look(4)]


def test_rows_that_share_a_block_share_exactly_its_tokens():
    prompts = read_prompts()
    assert prompts[0].tokens[:512] == prompts[1].tokens[:512]
    assert prompts[0].tokens[512:] != prompts[1].tokens[512:]


def test_arrivals_stay_within_the_phase_and_repeat_with_the_seed():
    phase = Phase("pressure", rate=2.0, seconds=30)
    first = [arrival.at for arrival in arrivals(phase, iter(read_prompts()), seed=1)]
    again = [arrival.at for arrival in arrivals(phase, iter(read_prompts()), seed=1)]
    assert first == again
    assert 30 < len(first) < 90
    assert max(first) < 30


def test_a_phase_may_ask_for_longer_answers_than_the_trace_has():
    phase = Phase("burst", rate=8.0, seconds=2, answer_tokens=192)
    prompts = [arrival.prompt for arrival in arrivals(phase, iter(read_prompts()), seed=1)]
    assert {prompt.max_tokens for prompt in prompts} == {192}
    assert [prompt.tokens for prompt in prompts] == [each.tokens for each in read_prompts()[: len(prompts)]]


def test_a_pods_first_cap_is_not_a_change():
    assert cap_changes([a_look(0, caps={"a": 8}), a_look(2, caps={"a": 8, "b": 8})]) == 0
    assert cap_changes(a_good_run()) == 1


def test_replica_history_keeps_changes_only():
    assert replica_history(a_good_run()) == [(0, 1), (2, 2), (4, 1)]


def test_a_run_that_kept_every_promise_breaks_none():
    assert broken_promises(summarise(a_good_run(), Tally(sent=3, ok=3), {})) == []


def test_each_broken_promise_is_named():
    broken = broken_promises(summarise([a_look(0, replicas=2)], Tally(sent=3, ok=2, lost=1), {}))
    assert len(broken) == 4
    assert "1 of 3 requests lost" in broken


def test_the_quantile_of_nothing_is_unknown():
    assert quantile([], 0.5) is None
    assert quantile([3, 1, 2], 0.5) == 2

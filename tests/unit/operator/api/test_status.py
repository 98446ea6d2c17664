import json

from hypothesis import given, settings
from hypothesis import strategies as st

from kvis_operator.api.conditions import complete
from kvis_operator.api.status import MAX_BYTES, MAX_DECISIONS, CacheStatus, DecisionStatus, Status


def _decision(number: int, *, size: int = 0) -> DecisionStatus:
    numbers = {f"{'n' * size}{i}": 1 / 3 for i in range(4)}
    return DecisionStatus(
        at="2027-01-15T08:00:00Z",
        knob="replicas",
        before=str(number),
        after="2",
        reason="Memory",
        numbers=numbers,
    )


def test_what_was_not_observed_is_left_out_and_zero_is_kept() -> None:
    assert Status(cache=CacheStatus(hit_rate=0.0)).to_dict()["cache"] == {"hitRate": 0.0}


def test_ratios_are_rounded() -> None:
    assert Status(cache=CacheStatus(kv_usage=0.123456)).to_dict()["cache"] == {"kvUsage": 0.123}


def test_what_scaling_remembers_keeps_its_precision() -> None:
    assert Status(scaler={"need": 1.23456789}).to_dict()["scaler"] == {"need": 1.23456789}


def test_the_newest_decision_comes_first_and_the_last_ten_stay() -> None:
    status = Status()
    for number in range(MAX_DECISIONS + 5):
        status = status.with_decision(_decision(number))
    decisions = status.to_dict()["decisions"]
    assert [d["from"] for d in decisions] == [str(n) for n in range(14, 4, -1)]


def test_a_stored_status_is_read_back_whole() -> None:
    status = Status(conditions=list(complete((), generation=2, now=1.8e9)), scaler={"a": [1]}, selector="a=b")
    status = status.with_decision(_decision(1))
    assert Status.restore(status.to_dict()).to_dict() == status.to_dict()


def test_a_status_that_cannot_be_read_counts_as_empty() -> None:
    assert Status.restore({"replicas": "many", "phase": "Running"}) == Status()


def test_old_decisions_give_way_before_what_scaling_remembers() -> None:
    status = Status(scaler={"window": "x" * 6000})
    for number in range(10):
        status = status.with_decision(_decision(number, size=60))
    document = status.to_dict()
    assert "scaler" in document
    assert 0 < len(document["decisions"]) < 10


@settings(max_examples=50)
@given(st.integers(0, 20_000), st.integers(0, 20_000), st.integers(0, 60))
def test_a_status_never_exceeds_its_size(scaler: int, tuner: int, size: int) -> None:
    conditions = [c.model_copy(update={"message": "m" * 512}) for c in complete((), generation=1, now=1.8e9)]
    status = Status(conditions=conditions, scaler={"x": "s" * scaler}, tuner={"x": "t" * tuner})
    for number in range(10):
        status = status.with_decision(_decision(number, size=size))
    assert len(json.dumps(status.to_dict(), separators=(",", ":"))) <= MAX_BYTES

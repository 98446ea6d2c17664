from kvis_operator.api.conditions import (
    MESSAGE_LIMIT,
    Condition,
    ConditionType,
    Reason,
    complete,
    find_condition,
    set_condition,
)

NOON = 1_800_000_000.0


def _ready(
    before: tuple[Condition, ...] = (), *, status: bool | None = True, now: float = NOON, **kw: object
) -> Condition:
    after = set_condition(before, ConditionType.READY, status, Reason.READY, generation=3, now=now, **kw)  # type: ignore[arg-type]
    found = find_condition(after, ConditionType.READY)
    assert found is not None
    return found


def test_a_new_condition_carries_time_and_generation() -> None:
    condition = _ready()
    assert (condition.status, condition.last_transition_time) == ("True", "2027-01-15T08:00:00Z")
    assert condition.observed_generation == 3


def test_the_transition_time_stays_while_the_status_does() -> None:
    before = _ready()
    assert (
        _ready((before,), now=NOON + 60, message="other words").last_transition_time
        == before.last_transition_time
    )


def test_the_transition_time_moves_with_the_status() -> None:
    before = _ready()
    assert _ready((before,), status=False, now=NOON + 60).last_transition_time == "2027-01-15T08:01:00Z"


def test_not_knowing_is_a_status_of_its_own() -> None:
    assert _ready(status=None).status == "Unknown"


def test_setting_the_same_twice_changes_nothing() -> None:
    once = set_condition((), ConditionType.SIZED, True, Reason.SIZED, generation=1, now=NOON)
    assert set_condition(once, ConditionType.SIZED, True, Reason.SIZED, generation=1, now=NOON + 5) == once


def test_every_known_condition_is_written_at_the_first_visit() -> None:
    conditions = complete((), generation=1, now=NOON)
    assert [c.type for c in conditions] == [t.value for t in ConditionType]
    assert {c.status for c in conditions} == {"Unknown"}


def test_a_long_message_is_cut() -> None:
    assert len(_ready(message="x" * 5000).message) == MESSAGE_LIMIT


def test_every_reason_is_one_camel_case_word() -> None:
    assert all(reason.value[0].isupper() and reason.value.isalnum() for reason in Reason)

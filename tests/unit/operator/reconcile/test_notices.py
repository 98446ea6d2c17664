"""Events: a transition is told, a state that lasts is not."""

from __future__ import annotations

from enum import StrEnum

from kvis_operator.api.conditions import Condition, ConditionType, Reason, set_condition
from kvis_operator.reconcile.notices import of_transitions


def having(
    status: bool | None, reason: StrEnum, type_: ConditionType = ConditionType.ACCEPTED
) -> tuple[Condition, ...]:
    return set_condition((), type_, status, reason, "text", generation=1, now=0)


GOOD = having(True, Reason.ACCEPTED)
BAD = having(False, Reason.PROFILE_NOT_FOUND)


def told(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> list[tuple[str, str]]:
    return [(notice.kind, notice.reason) for notice in of_transitions(before, after)]


def test_a_refusal_is_told_once() -> None:
    assert told(GOOD, BAD) == [("Warning", "ProfileNotFound")]
    assert told(BAD, BAD) == []


def test_another_reason_is_told_again() -> None:
    assert told(BAD, having(False, Reason.SPEC_INVALID)) == [("Warning", "SpecInvalid")]


def test_a_recovery_is_told() -> None:
    assert told(BAD, GOOD) == [("Normal", "AcceptedAgain")]


def test_a_service_that_starts_is_not_reported_as_failing() -> None:
    assert told((), having(False, Reason.PROGRESSING, ConditionType.READY)) == []


def test_a_hold_is_told_when_it_begins() -> None:
    held = having(False, Reason.MANUAL_HOLD, ConditionType.SCALING_ACTIVE)
    assert told(having(True, Reason.ACTIVE, ConditionType.SCALING_ACTIVE), held) == [("Normal", "ManualHold")]

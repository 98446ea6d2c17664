"""Who wrote spec.replicas: ours is ours, anything else is a wish that is held and then taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvis_operator.rollout.replicas import Standing, Writer, Written, standing, wrote

NOON = 1_800_000_000.0


def judge(
    current: int | None, written: Written, *, follows: bool = False, now: float = NOON
) -> tuple[Standing, Written]:
    return standing(current, written, follows_field=follows, now=now, hold_seconds=600)


def test_what_we_wrote_is_ours() -> None:
    assert judge(3, Written(value=3))[0] == Standing(Writer.OPERATOR)


def test_the_first_value_ever_seen_is_taken_over_not_held() -> None:
    assert judge(3, Written()) == (Standing(Writer.OPERATOR), Written(value=3))


def test_another_value_is_followed_until_the_hold_is_over() -> None:
    found, written = judge(5, Written(value=2))
    assert (found.writer, found.follow, found.held_until) == (Writer.PERSON, 5, NOON + 600)
    later, _ = judge(5, written, now=NOON + 599)
    assert later.writer is Writer.PERSON


def test_a_wish_is_taken_back_after_the_hold() -> None:
    _, written = judge(5, Written(value=2))
    found, _ = judge(5, written, now=NOON + 600)
    assert (found.writer, found.taken_back) == (Writer.OPERATOR, 5)


def test_a_new_wish_starts_a_new_hold() -> None:
    _, written = judge(5, Written(value=2))
    found, _ = judge(6, written, now=NOON + 500)
    assert found.held_until == NOON + 1100


def test_a_crash_between_remembering_and_writing_is_no_wish() -> None:
    assert judge(2, wrote(4, before=2))[0].writer is Writer.OPERATOR


def test_the_old_value_is_a_wish_again_once_the_new_one_was_seen() -> None:
    _, written = judge(4, wrote(4, before=2))
    assert judge(2, written)[0].writer is Writer.PERSON


def test_a_value_that_is_applied_again_every_minute_is_taken_back_once_in_a_hold() -> None:
    written, taken_back = wrote(4, before=1), 0
    for minute in range(30):
        _, written = judge(4, written, now=NOON + 60 * minute)
        found, written = judge(2, written, now=NOON + 60 * minute + 30)
        if found.taken_back is not None:
            taken_back += 1
            written = wrote(4, before=2)
    assert taken_back == 0  # each return to ours ends the wish, so nothing is fought over


def test_a_followed_field_is_remembered_as_if_it_were_ours() -> None:
    found, written = judge(7, Written(value=2), follows=True)
    assert (found.writer, found.follow, written) == (Writer.FIELD, 7, Written(value=7))


def test_unreadable_memory_counts_as_none() -> None:
    assert Written.restore({"value": "three"}) == Written.restore(None) == Written()


@given(st.builds(Written, value=st.none() | st.integers(0, 9), before=st.none() | st.integers(0, 9)))
def test_memory_survives_being_stored(written: Written) -> None:
    assert Written.restore(written.to_json()) == written


@given(st.none() | st.integers(0, 9), st.none() | st.integers(0, 9), st.booleans())
def test_looking_twice_at_the_same_moment_changes_nothing(
    current: int | None, value: int | None, follows: bool
) -> None:
    first, written = judge(current, Written(value=value), follows=follows)
    assert judge(current, written, follows=follows) == (first, written)

"""Who set `spec.replicas`, and what follows from it.

Replicas have one writer, but anybody may write the field. We remember the last value that we wrote; any
other value is somebody else's wish. In Auto a wish is honoured for a while, then taken back. The value that
stood before our last write still counts as ours until the new one has been seen, so that a crash between
remembering and writing is not mistaken for a wish.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class Writer(StrEnum):
    """Who decides the number of replicas at this moment."""

    OPERATOR = "Operator"
    PERSON = "Person"  # a wish in Auto, for as long as it is held
    FIELD = "Field"  # Manual, Recommend, paused or externally scaled: the field is followed


@dataclass(frozen=True, slots=True)
class Written:
    """What we remember of our own writes; all None when nothing was written or the memory was lost."""

    value: int | None = None
    before: int | None = None
    wish: int | None = None
    wish_since: float | None = None  # Unix seconds

    @classmethod
    def restore(cls, raw: Mapping[str, Any] | None) -> "Written":
        """From a stored value; anything unreadable counts as never written."""
        raw = raw if isinstance(raw, Mapping) else {}
        numbers = {name: raw.get(name) for name in ("value", "before", "wish", "wish_since")}
        if any(not isinstance(n, int | float | None) or isinstance(n, bool) for n in numbers.values()):
            return cls()
        whole = {n: None if numbers[n] is None else int(numbers[n] or 0) for n in ("value", "before", "wish")}
        return cls(**whole, wish_since=numbers["wish_since"])

    def to_json(self) -> dict[str, int | float]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Standing:
    """`follow`: the value of the field that the children follow; None when the operator's own decision
    counts.
    """

    writer: Writer
    follow: int | None = None
    held_until: float | None = None
    taken_back: int | None = None  # a wish whose time is over


def standing(
    current: int | None, written: Written, *, follows_field: bool, now: float, hold_seconds: float
) -> tuple[Standing, Written]:
    """Judge the field's `current` value. Returns also what to remember; remembering alone needs no write."""
    if follows_field:
        return Standing(Writer.FIELD, follow=current), Written(value=current)
    if current is None:
        return Standing(Writer.OPERATOR), replace(written, wish=None, wish_since=None)
    if written.value is None:
        return Standing(Writer.OPERATOR), Written(value=current)
    if current == written.value:
        return Standing(Writer.OPERATOR), Written(value=current)
    if current == written.before:
        return Standing(Writer.OPERATOR), written
    return _wish(current, written, now=now, hold_seconds=hold_seconds)


def wrote(value: int, *, before: int | None) -> Written:
    """What to remember before `value` is written over `before`."""
    return Written(value=value, before=before)


def _wish(current: int, written: Written, *, now: float, hold_seconds: float) -> tuple[Standing, Written]:
    since = written.wish_since if written.wish == current and written.wish_since is not None else now
    if now - since >= hold_seconds:
        return Standing(Writer.OPERATOR, taken_back=current), replace(written, wish=None, wish_since=None)
    held = replace(written, wish=current, wish_since=since)
    return Standing(Writer.PERSON, follow=current, held_until=since + hold_seconds), held

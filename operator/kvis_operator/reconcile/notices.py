"""Events for people, from what a pass did and from what changed between two statuses. Pure.

A transition is told once, together with the status write that records it; so nothing is told twice, not
even after a restart.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from kvis_operator.api.conditions import Condition, ConditionType, find_condition
from kvis_operator.api.status import DecisionStatus
from kvis_operator.cluster.apply import TookBack
from kvis_operator.cluster.events import Notice

WORTH_TELLING: Final = (
    ConditionType.ACCEPTED,
    ConditionType.SIZED,
    ConditionType.READY,
    ConditionType.ENGINE_HEALTHY,
)
HELD: Final = ("ManualHold", "ExternallyScaled")


def of_transitions(before: Sequence[Condition], after: Sequence[Condition]) -> Iterator[Notice]:
    for type_ in WORTH_TELLING:
        old, new = find_condition(before, type_), find_condition(after, type_)
        if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            continue
        if new.status == "False" and not _is_start(type_, new, old):
            yield Notice("Warning", "Report", new.reason, f"{type_.value} is False: {new.message}")
        elif new.status == "True" and old is not None and old.status == "False":
            yield Notice("Normal", "Report", f"{type_.value}Again", f"{type_.value} is True: {new.message}")
    yield from _of_writer(before, after)


def of_decision(decision: DecisionStatus) -> Notice:
    numbers = ", ".join(f"{name} {value:g}" for name, value in decision.numbers.items())
    change = f"{decision.knob} {decision.before} -> {decision.after}"
    note = f"{change}: {numbers}" if numbers else change
    action = "Scale" if decision.knob == "replicas" else "Tune"
    return Notice("Normal", action, decision.reason, f"{note} ({decision.outcome})")


def of_wish_taken_back(wish: int, target: int, hold_seconds: float) -> Notice:
    note = f"spec.replicas {wish} was followed for {hold_seconds:g} s; in Auto KVIS sets it, now to {target}"
    return Notice("Normal", "Scale", "ManualHoldOver", note)


def of_taken_back(change: TookBack) -> Notice:
    name = f"{change.kind} {change.name}"
    note = f"{name} was edited and is as rendered again; edit the service instead. {change.conflict}"
    return Notice("Warning", "Apply", "ChildEdited", note)


def _of_writer(before: Sequence[Condition], after: Sequence[Condition]) -> Iterator[Notice]:
    old = find_condition(before, ConditionType.SCALING_ACTIVE)
    new = find_condition(after, ConditionType.SCALING_ACTIVE)
    if new is not None and new.reason in HELD and (old is None or old.reason != new.reason):
        yield Notice("Normal", "Scale", new.reason, new.message)


def _is_start(type_: ConditionType, new: Condition, old: Condition | None) -> bool:
    """A service that was never ready is not failing, it is starting."""
    was_true = old is not None and old.status == "True"
    return type_ is ConditionType.READY and new.reason == "Progressing" and not was_true

"""The decisions of a pass, as status keeps them: what was turned, from where to where, why, by which
numbers. Pure.
"""

from collections import Counter
from typing import Final

from kvis_operator.api.conditions import timestamp
from kvis_operator.api.status import DecisionStatus, Status
from kvis_operator.reconcile.act import Outcome
from kvis_operator.reconcile.deliberate import Intent
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.world import Memory
from kvis_operator.rollout.replicas import Writer
from kvis_operator.tuning.admission import CapDecision

TOLD_NUMBERS: Final = (
    "rate_expected",
    "waiting",
    "kv_usage",
    "preemptions_per_request",
    "hit_rate",
    "need_up",
    "need_down",
    "need_keep",
    "need_memory",
    "floor_memory",
    "backlog",
    "replica_rate",
    "batch",
    "ready",
    "fresh",
)
"""The numbers of a decision that go into status, most telling first; the rest is in the operator's
metrics.
"""


def history(
    before: Status, scene: Scene, memory: Memory, intent: Intent | None, outcome: Outcome
) -> tuple[DecisionStatus, ...]:
    """What this pass adds to the history, newest first."""
    entries = [*_caps(scene, outcome.caps)]
    if outcome.replicas_written is not None:
        entries.append(_replicas(scene, memory, outcome.replicas_written, "Applied"))
    elif _is_new_proposal(before, scene, memory, intent) and memory.decision is not None:
        entries.append(_replicas(scene, memory, memory.decision.replicas, "Proposed"))
    return tuple(entries)


def _is_new_proposal(before: Status, scene: Scene, memory: Memory, intent: Intent | None) -> bool:
    """Where others write the field: the scaler would set another number than it said last time."""
    if (
        intent is None
        or intent.standing.writer is not Writer.FIELD
        or memory.decision is None
        or not scene.is_tick
    ):
        return False
    wanted = memory.decision.replicas
    known = before.recommendation.replicas if before.recommendation else None
    return wanted not in (known, scene.replicas_field)


def _replicas(scene: Scene, memory: Memory, after: int, outcome: str) -> DecisionStatus:
    decision = memory.decision
    numbers = decision.numbers if decision else {}
    decided = decision is not None and decision.replicas == after and scene.replicas_field is not None
    return DecisionStatus(
        at=timestamp(scene.now),
        knob="replicas",
        before="unset" if scene.replicas_field is None else str(scene.replicas_field),
        after=str(after),
        reason=decision.reason.value if decision and decided else "Initial",
        numbers={name: round(numbers[name], 3) for name in TOLD_NUMBERS if name in numbers},
        outcome=outcome,
    )


def _caps(scene: Scene, decisions: tuple[CapDecision, ...]) -> list[DecisionStatus]:
    """One entry for pods that moved alike, so that a large service does not push its history out."""
    moves = Counter((d.current, d.cap, d.reason.value) for d in decisions)
    numbers = {(d.current, d.cap, d.reason.value): d.numbers for d in decisions}
    return [
        DecisionStatus(
            at=timestamp(scene.now),
            knob="maxNumSeqs",
            before=str(move[0]),
            after=str(move[1]),
            reason=move[2],
            numbers={**{n: round(v, 3) for n, v in list(numbers[move].items())[:14]}, "pods": pods},
        )
        for move, pods in moves.items()
    ]

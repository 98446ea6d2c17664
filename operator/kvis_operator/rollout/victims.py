"""Which pods a scale-in takes: their `pod-deletion-cost`, so that the ReplicaSet picks exactly those.

The scaler names the victims in order; here the order becomes annotations. A pod that is no victim any more
loses its mark, or a later scale-in would take it for a reason that has passed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
FIRST_VICTIM_COST: Final = -1000
"""Cost of the first victim, one more for each next; an unmarked pod counts as 0 and is kept."""


@dataclass(frozen=True, slots=True)
class CostChange:
    """The annotation that a pod must get; `cost` None removes it."""

    name: str
    uid: str
    resource_version: str
    cost: str | None


def choose(pods: Sequence[Mapping[str, Any]], order: Sequence[str], count: int) -> tuple[str, ...]:
    """`count` names among `pods`: those marked already, then by `order`, then any others.

    A choice once marked stands, or two passes with different readings would stop two pods for one.
    """
    names = [pod["metadata"]["name"] for pod in pods]
    marked = sorted((pod for pod in pods if _cost(pod) is not None), key=lambda pod: _cost(pod) or 0)
    ranked = [pod["metadata"]["name"] for pod in marked]
    ranked += [name for name in (*order, *names) if name in names]
    return tuple(dict.fromkeys(ranked))[: max(0, count)]


def cost_changes(pods: Sequence[Mapping[str, Any]], victims: Sequence[str]) -> tuple[CostChange, ...]:
    """Changes that make `victims` (pod names, first to go first) the cheapest to delete, and no other pod."""
    wanted = {name: str(FIRST_VICTIM_COST + place) for place, name in enumerate(victims)}
    changes = []
    for pod in pods:
        metadata = pod["metadata"]
        name = metadata["name"]
        marked = (metadata.get("annotations") or {}).get(DELETION_COST)
        is_ours = name in wanted or _cost(pod) is not None
        if is_ours and marked != wanted.get(name) and not metadata.get("deletionTimestamp"):
            changes.append(CostChange(name, metadata["uid"], metadata["resourceVersion"], wanted.get(name)))
    return tuple(changes)


def _cost(pod: Mapping[str, Any]) -> int | None:
    """The cost that we have marked a pod with; somebody's own preference is not one of ours."""
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "")
    cost = int(text) if text.removeprefix("-").isdigit() else 0
    return cost if cost <= FIRST_VICTIM_COST / 2 else None

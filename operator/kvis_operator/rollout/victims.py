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


def cost_changes(pods: Sequence[Mapping[str, Any]], victims: Sequence[str]) -> tuple[CostChange, ...]:
    """Changes that make `victims` (pod names, first to go first) the cheapest to delete, and no other pod."""
    wanted = {name: str(FIRST_VICTIM_COST + place) for place, name in enumerate(victims)}
    changes = []
    for pod in pods:
        metadata = pod["metadata"]
        name = metadata["name"]
        marked = (metadata.get("annotations") or {}).get(DELETION_COST)
        if marked != wanted.get(name) and not metadata.get("deletionTimestamp"):
            changes.append(CostChange(name, metadata["uid"], metadata["resourceVersion"], wanted.get(name)))
    return tuple(changes)

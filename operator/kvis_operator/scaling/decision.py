"""The scaler's answer: how many replicas, and why.

A `Decision` is complete by itself: status, events, metrics, `kvis explain` and the simulator print it unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """One word for why. `Hold*` and `Cooldown*` say what would have to change before anything happens."""

    # Up
    CAPACITY = "Capacity"
    MEMORY = "Memory"
    BACKLOG = "Backlog"
    BURST = "Burst"
    SLO_GUARD = "SLOGuard"
    ALERT_FLOOR = "AlertFloor"
    # Down
    CONSOLIDATE = "Consolidate"
    # Bounds
    LIMITED = "Limited"
    BUDGET_REACHED = "BudgetReached"
    # Nothing to do
    WITHIN_CAPACITY = "WithinCapacity"
    HOLD_METRICS_STALE = "HoldMetricsStale"
    HOLD_NO_DATA = "HoldNoData"
    HOLD_PENDING = "HoldPending"
    HOLD_DEMAND_MEMORY = "HoldDemandMemory"
    HOLD_USUAL_PEAK = "HoldUsualPeak"
    HOLD_CONSOLIDATION = "HoldConsolidation"
    HOLD_ALERT = "HoldAlert"
    HOLD_SLO_INFEASIBLE = "HoldSLOInfeasible"
    COOLDOWN_AFTER_UP = "CooldownAfterUp"
    COOLDOWN_AFTER_DOWN = "CooldownAfterDown"
    FLAP_GUARD = "FlapGuard"


@dataclass(frozen=True, slots=True)
class Decision:
    current: int  # desired replicas before, pending ones included
    replicas: int  # desired replicas from now on
    reason: Reason
    numbers: Mapping[str, float] = field(default_factory=dict)
    victims: tuple[str, ...] = ()  # pod names to stop, first first; empty unless shrinking
    conditions: frozenset[str] = frozenset()  # e.g. "SignalImplausible", "SLOInfeasible", "FlapGuard"
    held_until: float | None = None  # Unix seconds, for holds that end by themselves

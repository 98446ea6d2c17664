"""What a pass works with: the view to read, the ways to write, the tables and times to decide by.

Built once in `cli/operator.py`. One `Memory` per service, by UID: what is remembered between passes,
restored from the service's own status at first sight. What status does not tell is unknown, never zero.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvis_operator.api.profile import ProfileTable
from kvis_operator.api.status import DecisionStatus, Status
from kvis_operator.cluster.client import Kube
from kvis_operator.cluster.runtime_admin import RuntimeAdmin
from kvis_operator.observe.cluster import Body, ClusterView
from kvis_operator.observe.scrape import Scraper
from kvis_operator.reconcile.journal import Journal
from kvis_operator.rollout.replicas import Written
from kvis_operator.scaling.decision import Decision
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.bands import Bands
from kvis_operator.signals.observation import Observation
from kvis_operator.signals.series import Fleet
from kvis_operator.tuning.admission import CapDecision, CapState


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Seconds."""

    tick: float = 15.0
    manual_hold: float = 600.0
    status: float = 10.0  # at most one status write in this
    cache_status: float = 30.0  # where nothing but measured values has changed
    busy_state: float = 60.0  # where nothing but what scaling remembers has changed, under traffic
    idle_state: float = 300.0  # the same without traffic, while there are replicas to give up
    conflict_retry: float = 30.0  # until a taken name is looked at again


@dataclass(slots=True)
class Memory:
    scaler: ScalerState
    written: Written
    caps: dict[str, CapState]  # by pod UID
    fleet: Fleet = field(default_factory=Fleet)
    bands: Bands = field(default_factory=Bands)
    wishes: Body | None = None  # the spec at the last tick, without replicas
    next_tick_at: float = -math.inf  # monotonic
    status_at: float = -math.inf  # monotonic; of the last status write
    observation: Observation | None = None
    decision: Decision | None = None
    cap_decisions: tuple[CapDecision, ...] = ()
    untold: tuple[DecisionStatus, ...] = ()  # decisions that no status write has carried yet, newest first
    admin_error: str = ""

    @classmethod
    def restore(cls, raw: Mapping[str, Any] | None) -> "Memory":
        status = Status.restore(raw)
        stored = status.scaler or {}
        caps = {uid: CapState.restore(state) for uid, state in (status.tuner or {}).items()}
        return cls(
            scaler=ScalerState.restore(stored.get("state")),
            written=Written.restore(stored.get("written")),
            caps=caps,
        )


@dataclass(slots=True)
class World:
    view: ClusterView
    kube: Kube
    scraper: Scraper
    profiles: ProfileTable
    identity: str
    admin: RuntimeAdmin | None = None
    public_key_pem: str = ""
    policy_namespace: str | None = None  # the operator's namespace, where network policies are rendered
    times: LoopTimes = field(default_factory=LoopTimes)
    journal: Journal = field(default_factory=Journal)
    memories: dict[str, Memory] = field(default_factory=dict)
    now: Callable[[], float] = (
        time.time
    )  # Unix seconds, for what is stored or compared with the cluster's times
    steady: Callable[[], float] = time.monotonic  # for waiting: no step of the wall clock moves it

    def memory_of(self, service: Body) -> Memory:
        uid = service["metadata"]["uid"]
        if uid not in self.memories:
            self.memories[uid] = Memory.restore(service.get("status"))
        return self.memories[uid]

    def forget_all_but(self, uids: set[str]) -> None:
        for uid in set(self.memories) - uids:
            del self.memories[uid]

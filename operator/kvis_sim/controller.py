"""The seam between the simulated cluster and whatever decides: the shipped scaler, or a port of somebody
else's.

Every `interval` seconds the cluster hands over what a real operator would have (pod states, scraped
samples) and gets back a level: the replicas wanted from now on. Asking twice for the same level changes
nothing. A controller never sees the simulator's own state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kvis_operator.signals.observation import PodState
from kvis_operator.signals.sample import PodSample


@dataclass(frozen=True, slots=True)
class ControllerAction:
    """Wanted from now on. `replicas` None: keep what is; it counts pods that are still starting, not
    draining ones.
    """

    replicas: int | None = None
    victims: tuple[
        str, ...
    ] = ()  # pod names or uids to stop first; the cluster picks the least busy for the rest
    caps: Mapping[str, int] = field(default_factory=dict)  # pod uid -> live cap of running sequences
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


class Controller(Protocol):
    """Stateful between ticks; one instance serves one simulation."""

    @property
    def name(self) -> str: ...

    @property
    def interval(self) -> float:
        """Seconds between ticks (and scrapes): 15 for most, 30 for KEDA, 2 for Knative."""
        ...

    def tick(
        self, now: float, pods: Sequence[PodState], samples: Mapping[str, PodSample]
    ) -> ControllerAction:
        """`now` in Unix seconds; `pods` without terminated ones; `samples` by pod uid, only those scraped."""
        ...


@runtime_checkable
class Restartable(Protocol):
    """A controller that models its own process restart; `state_lost` False means persisted state is read
    back.
    """

    def restart(self, *, state_lost: bool) -> None: ...


@runtime_checkable
class Alertable(Protocol):
    """A controller that listens to cache-pressure alerts."""

    def alert(self, now: float, *, firing: bool, count: int) -> None: ...


@dataclass(slots=True)
class StaticReplicas:
    """Keeps N replicas for ever: the simplest controller and the hindsight baseline."""

    replicas: int
    interval: float = 15.0

    @property
    def name(self) -> str:
        return f"static-{self.replicas}"

    def tick(
        self, now: float, pods: Sequence[PodState], samples: Mapping[str, PodSample]
    ) -> ControllerAction:
        return ControllerAction(replicas=self.replicas, reason="Static")

"""Knative's pod autoscaler (KPA) on concurrency, with panic mode.

Source: knative/serving `pkg/autoscaler/scaling/autoscaler.go` (2026-08) and its autoscaling docs. Two
windows over the total concurrency, stable 60 s and panic 6 s; panic starts when the panic window asks for
>= 200 % of the ready pods, never shrinks, and ends one quiet stable window later. Concurrency is what a
request-path proxy would count: here running plus waiting requests.
"""

import math
from dataclasses import dataclass, field

from kvis_sim.baselines.reading import FleetReading
from kvis_sim.baselines.windows import Window


@dataclass(frozen=True, slots=True)
class KpaSettings:
    target: float  # concurrent requests per pod
    stable_window: float = 60.0
    panic_window: float = 6.0
    panic_threshold: float = 2.0
    max_scale_up_rate: float = 1000.0
    max_scale_down_rate: float = 2.0
    scale_down_delay: float = 0.0


@dataclass(slots=True)
class KpaState:
    """A restarted autoscaler begins in panic at its present scale; one built here begins calm."""

    panic_since: float | None = None
    max_panic_pods: int = 0


def desired_pods(
    settings: KpaSettings, state: KpaState, *, stable: float, panic: float, ready: int, now: float
) -> int:
    """Pods wanted for `stable` and `panic` total concurrency; updates `state`."""
    pods = max(1, ready)
    wanted_panic = math.ceil(panic / settings.target)

    def limited(wanted: int) -> int:
        highest = math.ceil(settings.max_scale_up_rate * pods)
        return int(min(max(wanted, math.floor(pods / settings.max_scale_down_rate)), highest))

    _turn_panic(settings, state, over=wanted_panic / pods >= settings.panic_threshold, now=now)
    desired = limited(math.ceil(stable / settings.target))
    if state.panic_since is None:
        return desired
    state.max_panic_pods = max(state.max_panic_pods, desired, limited(wanted_panic))
    return state.max_panic_pods


def _turn_panic(settings: KpaSettings, state: KpaState, *, over: bool, now: float) -> None:
    if over:
        state.panic_since = now
    elif state.panic_since is not None and state.panic_since + settings.stable_window < now:
        state.panic_since, state.max_panic_pods = None, 0


@dataclass(slots=True)
class KnativePodAutoscaler:
    settings: KpaSettings
    interval: float = 2.0
    _state: KpaState = field(default_factory=KpaState)
    _concurrency: Window = field(init=False)
    _delayed: Window | None = None

    def __post_init__(self) -> None:
        self._concurrency = Window(self.settings.stable_window)
        if self.settings.scale_down_delay > 0:
            self._delayed = Window(self.settings.scale_down_delay)

    def step(self, reading: FleetReading) -> int:
        total = reading.total_in_flight()
        if total is not None:
            self._concurrency.add(reading.at, total)
        stable = self._concurrency.mean(reading.at)
        if stable is None:
            return reading.desired
        panic = self._concurrency.mean(reading.at, self.settings.panic_window)
        desired = desired_pods(
            self.settings,
            self._state,
            stable=stable,
            panic=stable if panic is None else panic,
            ready=len(reading.ready),
            now=reading.at,
        )
        if self._delayed is not None:
            self._delayed.add(reading.at, desired)
            desired = int(self._delayed.max() or desired)
        return reading.clamp(desired)

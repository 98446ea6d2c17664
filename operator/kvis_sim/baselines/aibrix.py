"""AIBrix's two own pod autoscalers: APA, and its KPA in the form the code has and with the missing factor.

Source: vllm-project/aibrix `pkg/controller/podautoscaler/algorithm/{apa,kpa}.go` (2026-08). Both work on
the average of a pod metric, here KV usage as in the project's own benchmark. Its KPA divides that *average*
by the target without multiplying by the pods, so a 0-1 metric at target 0.5 can never ask for more than 2;
`times_pods` adds the factor.
"""

import math
from dataclasses import dataclass, field

from kvis_sim.baselines.knative import KpaSettings, KpaState, desired_pods
from kvis_sim.baselines.reading import FleetReading
from kvis_sim.baselines.windows import Window

DOWN_COOLDOWN = 300.0
STABLE_SECONDS, PANIC_SECONDS = 180.0, 60.0


@dataclass(frozen=True, slots=True)
class ApaSettings:
    target: float
    up_tolerance: float = 0.1
    down_tolerance: float = 0.1
    max_up_rate: float = 2.0
    max_down_rate: float = 2.0


def apa_replicas(settings: ApaSettings, *, pods: float, average: float) -> int:
    ratio = average / settings.target
    if ratio > 1 + settings.up_tolerance:
        return min(math.ceil(pods * ratio), math.ceil(settings.max_up_rate * pods))
    if ratio < 1 - settings.down_tolerance:
        return max(math.ceil(pods * ratio), math.floor(pods / settings.max_down_rate))
    return int(pods)


def average_kv_usage(reading: FleetReading) -> float | None:
    """Mean over the ready pods; one pod that does not answer leaves the average unknown (their #617)."""
    values = [pod.kv_usage for pod in reading.ready]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


@dataclass(slots=True)
class Apa:
    settings: ApaSettings
    interval: float = 15.0
    down_cooldown: float = DOWN_COOLDOWN
    _recommended: Window = field(init=False)

    def __post_init__(self) -> None:
        self._recommended = Window(self.down_cooldown)

    def step(self, reading: FleetReading) -> int:
        average = average_kv_usage(reading)
        if average is None:
            return reading.desired
        wanted = apa_replicas(self.settings, pods=reading.desired, average=average)
        self._recommended.add(reading.at, wanted)
        if wanted < reading.desired:
            wanted = min(reading.desired, int(self._recommended.max() or wanted))
        return reading.clamp(wanted)


@dataclass(slots=True)
class AibrixKpa:
    target: float
    times_pods: bool = False
    interval: float = 15.0
    _state: KpaState = field(default_factory=KpaState)
    _values: Window = field(default_factory=lambda: Window(STABLE_SECONDS))

    def step(self, reading: FleetReading) -> int:
        average = average_kv_usage(reading)
        if average is None:
            return reading.desired
        self._values.add(reading.at, average)
        factor = len(reading.ready) if self.times_pods else 1
        settings = KpaSettings(self.target, stable_window=STABLE_SECONDS, max_scale_up_rate=2.0)
        wanted = desired_pods(
            settings,
            self._state,
            stable=(self._values.mean(reading.at) or 0.0) * factor,
            panic=(self._values.mean(reading.at, PANIC_SECONDS) or 0.0) * factor,
            ready=len(reading.ready),
            now=reading.at,
        )
        return reading.clamp(wanted)

"""Plugs a ported scaler into the simulated cluster: pod states and scraped samples in, replicas out.

The rival sees what its own collector would: gauges of the pods that answered, NaN as no answer, and means
of request lengths over five minutes from the pods' counters. It does not look at a sample's age, as none
of them does.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kvis_operator.signals.observation import PodPhase, PodState
from kvis_operator.signals.sample import PodSample
from kvis_sim.baselines.reading import FleetReading, PodReading
from kvis_sim.controller import ControllerAction

LENGTH_WINDOW_SECONDS = 300.0
SETTLE_SECONDS = 60.0  # a service that has just begun looks idle; no rival is judged by what it makes of that


class Scaler(Protocol):
    @property
    def interval(self) -> float: ...

    def step(self, reading: FleetReading) -> int: ...


@dataclass(frozen=True, slots=True)
class Bounds:
    initial_replicas: int
    min_replicas: int
    max_replicas: int
    kv_capacity_tokens: float  # of one replica


@dataclass(slots=True)
class RequestLengths:
    """Mean prompt and output tokens per finished request over the window, from counters that may restart."""

    _last: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    _deltas: deque[tuple[float, float, float, float]] = field(default_factory=deque)

    def add(self, now: float, samples: Mapping[str, PodSample]) -> None:
        prompt = output = finished = 0.0
        for uid, sample in samples.items():
            counters = _counters(sample)
            if counters is None:
                continue
            last = self._last.get(uid, counters)
            self._last[uid] = counters
            if any(new < old for new, old in zip(counters, last, strict=True)):
                continue
            prompt += counters[0] - last[0]
            output += counters[1] - last[1]
            finished += counters[2] - last[2]
        self._deltas.append((now, prompt, output, finished))
        while self._deltas[0][0] <= now - LENGTH_WINDOW_SECONDS:
            self._deltas.popleft()

    def means(self) -> tuple[float | None, float | None]:
        finished = sum(delta[3] for delta in self._deltas)
        if finished <= 0:
            return None, None
        return sum(d[1] for d in self._deltas) / finished, sum(d[2] for d in self._deltas) / finished


def _counters(sample: PodSample) -> tuple[float, float, float] | None:
    values = (sample.prompt_tokens, sample.generation_tokens, sample.finished_requests)
    known = [value for value in values if value is not None and math.isfinite(value)]
    return (known[0], known[1], known[2]) if len(known) == len(values) else None


@dataclass(slots=True)
class Rival:
    """A controller around a ported scaler. It keeps the level it last wrote, as the scale subresource
    would.
    """

    name: str
    scaler: Scaler
    bounds: Bounds
    _desired: int = field(init=False)
    _began: float | None = None
    _lengths: RequestLengths = field(default_factory=RequestLengths)

    def __post_init__(self) -> None:
        self._desired = self.bounds.initial_replicas

    @property
    def interval(self) -> float:
        return self.scaler.interval

    def tick(
        self, now: float, pods: Sequence[PodState], samples: Mapping[str, PodSample]
    ) -> ControllerAction:
        self._lengths.add(now, samples)
        input_tokens, output_tokens = self._lengths.means()
        reading = FleetReading(
            at=now,
            desired=self._desired,
            pods=tuple(_read(pod, samples.get(pod.uid)) for pod in pods if pod.phase in _SERVING),
            kv_capacity_tokens=self.bounds.kv_capacity_tokens,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            min_replicas=self.bounds.min_replicas,
            max_replicas=self.bounds.max_replicas,
        )
        self._began = now if self._began is None else self._began
        if now - self._began >= SETTLE_SECONDS:
            self._desired = self.scaler.step(reading)
        return ControllerAction(replicas=self._desired)


_SERVING = (PodPhase.PENDING, PodPhase.READY)


def _read(pod: PodState, sample: PodSample | None) -> PodReading:
    ready = pod.phase is PodPhase.READY
    if sample is None or not ready:
        return PodReading(pod.name, ready)
    gauges = (sample.running, sample.waiting, sample.kv_usage)
    running, waiting, kv_usage = (
        None if value is None or not math.isfinite(value) else value for value in gauges
    )
    return PodReading(pod.name, ready, running, waiting, kv_usage)

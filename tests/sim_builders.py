"""Builders for simulator tests: a small service with only what a test cares about spelt out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvis_operator.signals.observation import PodState
from kvis_operator.signals.sample import PodSample
from kvis_sim.controller import ControllerAction
from kvis_sim.scenario import Scenario
from kvis_sim.step_laws import Additive
from kvis_sim.workload import Request

LAW = Additive(a=0.02, p=1e-4, d=2e-4, c=1e-7)


def steadily(rate: float, seconds: float, *, prompt: int = 200, output: int = 50):
    """A request stream factory: one request every 1/rate seconds."""

    def requests(_):
        return (Request(k / rate, prompt, output) for k in range(int(rate * seconds)))

    return requests


def a_scenario(**changes) -> Scenario:
    settings = {
        "name": "test",
        "requests": steadily(2.0, 600.0),
        "duration": 600.0,
        "law": LAW,
        "kv_capacity_tokens": 100_000,
        "start_seconds": 60.0,
        "initial_replicas": 2,
        "warm_up": 0.0,
    }
    return Scenario(**(settings | changes))


@dataclass
class Scripted:
    """A controller that follows a script: (time from, replicas). Remembers every tick it saw."""

    script: Sequence[tuple[float, int]]
    interval: float = 15.0
    name: str = "scripted"
    victims: tuple[str, ...] = ()
    caps: Mapping[str, int] = field(default_factory=dict)
    ticks: list[tuple[float, list[PodState], dict[str, PodSample]]] = field(default_factory=list)

    def tick(self, now, pods, samples) -> ControllerAction:
        self.ticks.append((now, list(pods), dict(samples)))
        begin = self.ticks[0][0]
        wanted = [replicas for at, replicas in self.script if at <= now - begin]
        return ControllerAction(replicas=wanted[-1], victims=self.victims, caps=self.caps, reason="Scripted")

    def samples_of(self, uid: str) -> list[PodSample]:
        return [samples[uid] for _, _, samples in self.ticks if uid in samples]

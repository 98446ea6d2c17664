"""The adapter between the simulated cluster and a ported scaler."""

import math
from dataclasses import dataclass, field

from kvis_operator.signals.observation import PodPhase, PodState
from kvis_operator.signals.sample import PodSample
from kvis_sim.baselines.reading import FleetReading
from kvis_sim.baselines.rival import SETTLE_SECONDS, Bounds, Rival

BOUNDS = Bounds(initial_replicas=3, min_replicas=1, max_replicas=8, kv_capacity_tokens=1000.0)


@dataclass
class Remembers:
    interval: float = 15.0
    seen: list[FleetReading] = field(default_factory=list)

    def step(self, reading: FleetReading) -> int:
        self.seen.append(reading)
        return 5


def pod(name: str, phase: PodPhase = PodPhase.READY) -> PodState:
    return PodState(name, f"uid-{name}", phase, 0.0, 0.0)


def sample(at: float, finished: float = 0.0, running: float | None = 2.0) -> PodSample:
    return PodSample(
        at=at,
        running=running,
        waiting=1.0,
        kv_usage=0.5,
        finished_requests=finished,
        prompt_tokens=100.0 * finished,
        generation_tokens=10.0 * finished,
    )


def test_nothing_is_decided_before_the_service_has_settled() -> None:
    scaler = Remembers()
    rival = Rival("r", scaler, BOUNDS)
    assert rival.tick(0.0, [pod("a")], {}).replicas == 3
    assert not scaler.seen
    assert rival.tick(SETTLE_SECONDS, [pod("a")], {}).replicas == 5


def test_draining_pods_are_gone_and_loading_ones_are_not_ready() -> None:
    scaler = Remembers()
    rival = Rival("r", scaler, BOUNDS)
    pods = [pod("a"), pod("b", PodPhase.PENDING), pod("c", PodPhase.DRAINING)]
    rival.tick(0.0, pods, {})
    rival.tick(60.0, pods, {"uid-a": sample(60.0)})
    (reading,) = scaler.seen
    assert [(one.name, one.ready, one.running) for one in reading.pods] == [
        ("a", True, 2.0),
        ("b", False, None),
    ]


def test_nan_is_no_answer() -> None:
    scaler = Remembers()
    rival = Rival("r", scaler, BOUNDS)
    rival.tick(0.0, [pod("a")], {})
    rival.tick(60.0, [pod("a")], {"uid-a": sample(60.0, running=math.nan)})
    assert scaler.seen[0].pods[0].in_flight is None


def test_lengths_are_means_over_five_minutes_and_survive_a_counter_reset() -> None:
    scaler = Remembers()
    rival = Rival("r", scaler, BOUNDS)
    for at, finished in ((0.0, 10.0), (60.0, 20.0), (120.0, 5.0), (180.0, 9.0)):
        rival.tick(at, [pod("a")], {"uid-a": sample(at, finished=finished)})
    assert (scaler.seen[-1].input_tokens, scaler.seen[-1].output_tokens) == (100.0, 10.0)


def test_lengths_are_unknown_before_anything_finished() -> None:
    scaler = Remembers()
    rival = Rival("r", scaler, BOUNDS)
    for at in (0.0, 60.0):
        rival.tick(at, [pod("a")], {"uid-a": sample(at)})
    assert scaler.seen[0].input_tokens is None

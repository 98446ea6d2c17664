"""A simulated pod: its life from creation to termination around one engine replica."""

import random
from dataclasses import dataclass

from kvis_operator.signals.observation import PodPhase, PodState
from kvis_sim.engine import Replica
from kvis_sim.paged_kv import PagedKV, PrefixIndex
from kvis_sim.scenario import Scenario
from kvis_sim.sequences import EngineLimits, Sink

EPOCH = 1_700_000_000.0  # Unix seconds at a scenario's start: controllers never see a time near 0


@dataclass(slots=True)
class SimPod:
    """Times in seconds from the scenario's start. `ordinal` counts pods ever created; `slot` is reused."""

    ordinal: int
    slot: int
    created_at: float
    start_seconds: float
    replica: Replica
    phase: PodPhase = PodPhase.PENDING
    ready_at: float | None = None
    draining: bool = False

    @property
    def name(self) -> str:
        return f"pod-{self.ordinal:04d}"

    @property
    def uid(self) -> str:
        return f"uid-{self.ordinal:04d}"

    def state(self) -> PodState:
        ready = None if self.ready_at is None else EPOCH + self.ready_at
        return PodState(self.name, self.uid, self.phase, EPOCH + self.created_at, ready)

    def drain(self) -> None:
        self.phase = PodPhase.DRAINING
        self.draining = True


class PodFactory:
    """Makes the k-th pod of a run; its start time, speed and noise depend on the seed and on k alone."""

    def __init__(self, scenario: Scenario, sink: Sink, seed: int, index: PrefixIndex | None) -> None:
        self._scenario = scenario
        self._sink = sink
        self._seed = seed
        self._index = index
        self._slots: set[int] = set()
        self._count = 0

    def create(self, now: float) -> SimPod:
        scenario, ordinal = self._scenario, self._count
        self._count += 1
        slot = next(s for s in range(len(self._slots) + 1) if s not in self._slots)
        self._slots.add(slot)
        rng = random.Random(f"{self._seed}/pod/{ordinal}")
        start = scenario.start_seconds * rng.lognormvariate(0.0, scenario.start_sigma)
        speed = rng.lognormvariate(0.0, scenario.speed_spread)
        blocks = scenario.kv_capacity_tokens // scenario.block_size
        kv = PagedKV(blocks, scenario.block_size, self._index, slot)
        limits = EngineLimits(scenario.max_num_seqs, scenario.max_num_batched_tokens, scenario.noise)
        replica = Replica(scenario.law, kv, limits, self._sink, rng)
        replica.slowness = speed
        return SimPod(ordinal, slot, now, start, replica)

    def release(self, pod: SimPod) -> None:
        """The pod is gone; its slot may be used again."""
        pod.replica.kv.forget()
        self._slots.discard(pod.slot)

"""A fixed replica count: the oracle in hindsight when the benchmark picks the best N for each trace."""

from dataclasses import dataclass

from kvis_sim.baselines.reading import FleetReading


@dataclass(frozen=True, slots=True)
class Static:
    replicas: int
    interval: float = 60.0

    def step(self, reading: FleetReading) -> int:
        return reading.clamp(self.replicas)

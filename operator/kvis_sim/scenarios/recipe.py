"""A scenario as plain values, and its two products: what is simulated and what our scaler is told
beforehand.
"""

from dataclasses import dataclass
from enum import StrEnum

from kvis_operator.scaling.spec import HitSharing, ScalingSpec, StepTime
from kvis_sim.scenario import Fault, RouterKind, Scenario, Slo
from kvis_sim.scenarios.machines import Law, Machine
from kvis_sim.scenarios.traffic import Traffic


class Kind(StrEnum):
    FIXED_MIX = "fixed mix"  # lengths and reuse of one kind throughout
    MIX_SHIFT = "mix shift"  # the kind of request changes
    HIT_SHIFT = "hit shift"  # the share of reused prefixes changes
    FLAT_DAY = "flat day"
    PEAKY_DAY = "peaky day"


CHAT_SLO = Slo(ttft_seconds=2.0, tpot_seconds=0.1)
DAYS = frozenset({Kind.FLAT_DAY, Kind.PEAKY_DAY})


@dataclass(frozen=True, slots=True)
class Recipe:
    """Seconds and replicas; `initial` is the static-optimal count for the first minutes."""

    name: str
    kind: Kind
    traffic: Traffic
    machine: Machine
    duration: float
    initial: int
    law: Law = Law.MAX_FORM
    noise: float = 0.05
    speed_spread: float = 0.05
    router: RouterKind = RouterKind.LEAST_LOADED
    start_seconds: float = 120.0
    slo: Slo = CHAT_SLO
    block_size: int = 16
    max_replicas: int = 16
    warm_up: float = 600.0
    faults: tuple[Fault, ...] = ()

    def scenario(self) -> Scenario:
        machine = self.machine
        return Scenario(
            name=self.name,
            requests=lambda rng: self.traffic.requests(rng, duration=self.duration),
            duration=self.duration,
            law=machine.law(self.law),
            kv_capacity_tokens=machine.kv_capacity_tokens,
            block_size=self.block_size,
            max_num_seqs=machine.max_num_seqs,
            noise=self.noise,
            speed_spread=self.speed_spread,
            router=self.router,
            start_seconds=self.start_seconds,
            slo=self.slo,
            max_replicas=self.max_replicas,
            initial_replicas=self.initial,
            warm_up=self.warm_up,
            faults=self.faults,
        )

    def scaling_spec(self, *, prior_factor: float = 1.0) -> ScalingSpec:
        """What the service's manifest and profile would say. `prior_factor` makes the profile wrong."""
        prior = self.machine.prior
        return ScalingSpec(
            min_replicas=1,
            max_replicas=self.max_replicas,
            prior=StepTime(*(value * prior_factor for value in (prior.a, prior.p, prior.d, prior.c))),
            kv_capacity_tokens=self.machine.kv_capacity_tokens,
            max_num_seqs=self.machine.max_num_seqs,
            ttft_slo_seconds=self.slo.ttft_seconds,
            tpot_slo_seconds=self.slo.tpot_seconds,
            start_seconds=self.start_seconds,
            hit_sharing=SHARING[self.router],
        )


SHARING = {
    RouterKind.ROUND_ROBIN: HitSharing.UNAWARE,
    RouterKind.LEAST_LOADED: HitSharing.UNAWARE,
    RouterKind.CONSISTENT_HASH: HitSharing.PREFIX_AWARE,
    RouterKind.PREFIX_AWARE: HitSharing.PREFIX_AWARE,
}

"""One experiment, complete: traffic, machine, router, objectives, bounds and what goes wrong.

A scenario and a seed reproduce every number. Random draws come from streams keyed by the seed and by what
they are for (arrivals, the k-th pod's start, noise), so two controllers under one seed meet the same luck.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum

from kvis_operator.signals.sample import PodSample
from kvis_sim.step_laws import StepLaw
from kvis_sim.workload import Request

Requests = Callable[[random.Random], Iterator[Request]]
"""Makes a fresh request stream, times ascending from 0 in seconds; called once per run with the seed's own
generator.
"""

SAMPLE_FIELDS = frozenset(f.name for f in fields(PodSample)) - {"at", "model_names", "faults"}


class RouterKind(StrEnum):
    ROUND_ROBIN = "RoundRobin"
    LEAST_LOADED = "LeastLoaded"
    CONSISTENT_HASH = "ConsistentHash"
    PREFIX_AWARE = "PrefixAware"


class FaultKind(StrEnum):
    SCRAPE_LOSS = "ScrapeLoss"  # `fraction` of the scrapes of all pods fail
    NAN = "NaN"  # gauges and counters of `pods` read NaN
    COUNTER_RESET = "CounterReset"  # counters of `pods` restart at 0, once, at `start`
    FROZEN = "Frozen"  # `pods` repeat their last sample with its old time stamp
    RENAMED = "Renamed"  # the series `field` vanishes from `pods`
    DEAD_HITS = "DeadHits"  # the hit counter of `pods` stops moving
    SLOW_POD = "SlowPod"  # steps of `pods` take `factor` times as long
    NODE_LOST = "NodeLost"  # `pods` die at `start` with all they hold; replacements are created at once
    STUCK_PENDING = "StuckPending"  # pods created meanwhile do not become ready before the end
    API_REFUSED = "ApiRefused"  # writes answer 409/429: actions are dropped
    CONTROLLER_DOWN = "ControllerDown"  # no ticks (failover)
    CONTROLLER_RESTART = "ControllerRestart"  # once, at `start`; `fraction` > 0: persisted state is lost too
    ALERT_STORM = "AlertStorm"  # `pods` alerts fire at `start` and resolve at the end


@dataclass(frozen=True, slots=True)
class Fault:
    """`start` and `duration` in seconds from the scenario's start; `pods` counts from the oldest ready
    pod.
    """

    kind: FaultKind
    start: float
    duration: float = 300.0
    pods: int = 1
    fraction: float = 1.0
    factor: float = 2.0
    field: str = "kv_usage"

    def __post_init__(self) -> None:
        if self.field not in SAMPLE_FIELDS:
            raise ValueError(
                f"fault {self.kind}: no field {self.field!r}; {', '.join(sorted(SAMPLE_FIELDS))}"
            )

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass(frozen=True, slots=True)
class Slo:
    ttft_seconds: float = 2.0
    tpot_seconds: float = 0.1


@dataclass(frozen=True, slots=True)
class Scenario:
    """Times in seconds, sizes in tokens. `start_seconds` is the median from creation to ready."""

    name: str
    requests: Requests
    duration: float  # offered traffic ends here; cost is counted up to here
    law: StepLaw
    kv_capacity_tokens: int
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    noise: float = 0.0  # relative standard deviation of one step's time
    speed_spread: float = 0.0  # sigma of the log-normal factor on each pod's step times
    router: RouterKind = RouterKind.LEAST_LOADED
    start_seconds: float = 120.0
    start_sigma: float = 0.15
    slo: Slo = Slo()
    min_replicas: int = 1
    max_replicas: int = 16
    initial_replicas: int = 1  # ready at time 0, caches cold
    warm_up: float = 600.0  # not measured
    settle: float = (
        180.0  # after `duration`: time for the last requests to finish before they count as unfinished
    )
    drain_grace: float = 600.0  # a stopping pod's in-flight requests are lost after this
    api_delay: float = 1.0  # from an action to its effect
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.min_replicas <= self.max_replicas:
            raise ValueError(
                f"scenario {self.name}: need 1 <= min_replicas <= max_replicas, "
                f"got {self.min_replicas} and {self.max_replicas}"
            )
        if not self.min_replicas <= self.initial_replicas <= self.max_replicas:
            raise ValueError(
                f"scenario {self.name}: initial_replicas {self.initial_replicas} is outside "
                f"[{self.min_replicas}, {self.max_replicas}]"
            )
        if not 0.0 <= self.warm_up < self.duration:
            raise ValueError(
                f"scenario {self.name}: warm_up {self.warm_up} s must be below duration {self.duration} s"
            )
        if self.kv_capacity_tokens < self.block_size:
            raise ValueError(
                f"scenario {self.name}: kv_capacity_tokens {self.kv_capacity_tokens} holds no block "
                f"of {self.block_size} tokens"
            )

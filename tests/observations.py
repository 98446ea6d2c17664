"""Builders for what deciding sees and is asked. A test names only what matters to it."""

from dataclasses import replace
from typing import Any

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Decision
from kvis_operator.scaling.spec import ScalingSpec, StepTime
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.golden import observe
from kvis_operator.signals.observation import Observation, PodPhase, PodSignals, PodState
from kvis_operator.signals.sample import Histogram, PodSample
from kvis_operator.signals.series import Fleet

NOON = 1_800_000_000.0
TICK = 15.0
KV = 480_000.0
PRIOR = StepTime(a=0.026, p=0.000094, d=0.0002, c=1e-7)  # of the worked example in reference H3


def a_spec(**changes: Any) -> ScalingSpec:
    """The replica of the worked example: it carries 4.171 requests/s of the default mix (.85 of 4.907)."""
    defaults: dict[str, Any] = {
        "min_replicas": 1,
        "max_replicas": 16,
        "prior": PRIOR,
        "kv_capacity_tokens": KV,
        "max_num_seqs": 256,
        "ttft_slo_seconds": 2.0,
        "tpot_slo_seconds": 0.1,
        "start_seconds": 120.0,
    }
    return ScalingSpec(**(defaults | changes))


def a_pod(name: str = "pod-0", **changes: Any) -> PodSignals:
    defaults: dict[str, Any] = {
        "uid": name,
        "phase": PodPhase.READY,
        "age_seconds": 7200.0,
        "fresh": True,
        "warm": True,
        "sample_age_seconds": 3.0,
        "running": 10.0,
        "waiting": 0.0,
        "kv_usage": 0.2,
        "kv_capacity_tokens": KV,
        "max_num_seqs": 256,
        "max_num_active_seqs": 256,
        "preemptions_per_request": 0.0,
        "finished": 100.0,
    }
    return PodSignals(name=name, **(defaults | changes))


def pods(count: int, **changes: Any) -> tuple[PodSignals, ...]:
    return tuple(a_pod(f"pod-{i}", **changes) for i in range(count))


def an_observation(
    ready: int = 2, *, rate: float | None = 4.0, at: float = NOON, **changes: Any
) -> Observation:
    """`ready` calm pods; `kv` sets their KV usage, `pods` replaces them."""
    kv = changes.pop("kv", 0.2)
    waiting = changes.get("waiting", 0.0)
    share = None if waiting is None else waiting / max(1, ready)
    defaults: dict[str, Any] = {
        "pods": pods(ready, kv_usage=kv, waiting=share),
        "rate_15s": rate,
        "rate_60s": rate,
        "input_tokens": 1155.0,
        "output_tokens": 211.0,
        "shape_seconds": 600.0,
        "hit_rate": 0.3,
        "running": 10.0 * ready,
        "waiting": 0.0,
        "kv_tokens": None if kv is None else kv * KV * ready,
        "kv_usage": kv,
        "ttft_p95_seconds": 0.5,
        "tpot_p95_seconds": 0.05,
        "preemptions_per_request": 0.0,
    }
    return Observation(at=at, **(defaults | changes))


def blind(obs: Observation, count: int) -> Observation:
    """The same with the first `count` pods' samples lost."""
    lost = tuple(
        replace(pod, fresh=False, running=None, waiting=None, kv_usage=None, sample_age_seconds=90.0)
        for pod in obs.pods[:count]
    )
    return replace(obs, pods=(*lost, *obs.pods[count:]), faults=obs.faults | {"stale"})


class Loop:
    """Ticks `decide` with pods that follow its replicas after `start_seconds`, as a cluster would."""

    def __init__(
        self, spec: ScalingSpec, replicas: int, *, state: ScalerState | None = None, now: float = NOON
    ) -> None:
        self.spec, self.now = spec, now
        self.state = state or ScalerState.initial(replicas)
        self.births = [now - 7200.0] * replicas
        self.decisions: list[Decision] = []

    @property
    def replicas(self) -> int:
        assert self.state.desired is not None
        return self.state.desired

    @property
    def ready(self) -> int:
        return sum(self.now - birth >= self.spec.start_seconds for birth in self.births)

    @property
    def moves(self) -> list[Decision]:
        return [d for d in self.decisions if d.replicas != d.current]

    def tick(self, **observation: Any) -> Decision:
        ready = observation.pop("ready", self.ready)
        starting = tuple(
            a_pod(
                f"new-{i}",
                phase=PodPhase.PENDING,
                fresh=False,
                age_seconds=self.now - birth,
                sample_age_seconds=None,
            )
            for i, birth in enumerate(b for b in self.births if self.now - b < self.spec.start_seconds)
        )
        obs = an_observation(ready, at=self.now, **observation)
        obs = replace(obs, pods=(*obs.pods, *starting))
        decision, self.state = decide(self.spec, obs, self.state, now=self.now)
        self.decisions.append(decision)
        change = decision.replicas - len(self.births)
        self.births = self.births + [self.now] * change if change > 0 else self.births[: decision.replicas]
        self.now += self.spec.tick_seconds
        return decision

    def run(self, seconds: float, **observation: Any) -> "Loop":
        for _ in range(round(seconds / self.spec.tick_seconds)):
            self.tick(**observation)
        return self


def histogram(*observations: float, bounds: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0)) -> Histogram:
    edges = (*bounds, float("inf"))
    return Histogram(edges, tuple(float(sum(o <= e for o in observations)) for e in edges), sum(observations))


def a_pod_state(uid: str = "pod-0", **changes: Any) -> PodState:
    defaults: dict[str, Any] = {
        "phase": PodPhase.READY,
        "created_at": NOON - 7200.0,
        "ready_at": NOON - 7080.0,
    }
    return PodState(name=uid, uid=uid, **(defaults | changes))


def a_sample(at: float, requests: float = 0.0, **changes: Any) -> PodSample:
    """A pod that has finished `requests` of 1,000 prompt tokens (300 cached) and 100 generated ones."""
    defaults: dict[str, Any] = {
        "running": 4.0,
        "waiting": 0.0,
        "kv_usage": 0.25,
        "kv_capacity_tokens": 32_000.0,
        "block_size": 16,
        "max_num_seqs": 64,
        "max_num_active_seqs": 64,
        "prefix_queries": 1000.0 * requests,
        "prefix_hits": 300.0 * requests,
        "prompt_tokens": 1000.0 * requests,
        "prompt_tokens_cached": 300.0 * requests,
        "prompt_tokens_computed": 700.0 * requests,
        "generation_tokens": 100.0 * requests,
        "finished_requests": requests,
        "preemptions": 0.0,
        "engine_steps": 25.0 * requests,
        "engine_busy_seconds": 0.5 * requests,
    }
    return PodSample(at=at, **(defaults | changes))


def recorded(
    fleet: Fleet, uid: str = "pod-0", *, rate: float = 2.0, seconds: float = 900.0, **changes: Any
) -> Fleet:
    """`fleet` with samples each `TICK` up to `NOON` of a pod that serves `rate` requests/s since `seconds` ago."""
    ticks = round(seconds / TICK)
    for i in range(ticks + 1):
        fleet.record(uid, a_sample(NOON - seconds + i * TICK, 1000.0 + rate * i * TICK, **changes))
    return fleet


def observed(fleet: Fleet, *states: PodState, now: float = NOON, interval: float = TICK) -> Observation:
    return observe(states or (a_pod_state(),), fleet, now=now, interval=interval, start_seconds=120.0)

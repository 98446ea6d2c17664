"""How fast the deciding and the simulating are, measured on this machine (these are not simulated)."""

import time
from collections.abc import Callable
from statistics import median

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.spec import ScalingSpec, StepTime
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.golden import observe
from kvis_operator.signals.observation import Observation, PodPhase, PodState
from kvis_operator.signals.sample import PodSample
from kvis_operator.signals.series import Fleet
from kvis_sim.cluster import simulate
from kvis_sim.controller import StaticReplicas
from kvis_sim.scenarios.catalogue import recipe_named

REPEATS = 5
NOW = 1_700_000_000.0


def measure() -> tuple[dict[str, float], list[dict[str, object]]]:
    """Figures (medians of alternating runs) and the raw rows. Times are CPU time of this process."""
    observations = {16: _observation(16), 500: _observation(500)}
    decided: dict[int, list[float]] = {16: [], 500: []}
    simulated: list[float] = []
    for _ in range(REPEATS):
        for pods, observation in observations.items():
            decided[pods].append(
                1000.0 * _seconds_per_call(_decision(observation), calls=100 if pods == 16 else 10)
            )
        simulated.append(_requests_per_second())
    figures = {
        "sim_requests_per_s": median(simulated),
        "decide_ms_16": median(decided[16]),
        "decide_ms_500": median(decided[500]),
    }
    rows: list[dict[str, object]] = [{"figure": "sim_requests_per_s", "label": "measured", "runs": simulated}]
    for pods, runs in decided.items():
        rows.append({"figure": f"decide_ms_{pods}", "label": "measured", "runs": runs})
    return figures, rows


def _seconds_per_call(call: Callable[[], object], *, calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - started) / calls


def _decision(observation: Observation) -> Callable[[], object]:
    spec = ScalingSpec(
        min_replicas=1,
        max_replicas=1000,
        prior=StepTime(0.026, 0.094e-3, 0.2e-3, 1e-7),
        kv_capacity_tokens=480_000,
        max_num_seqs=256,
        ttft_slo_seconds=2.0,
        tpot_slo_seconds=0.1,
    )
    state = ScalerState.initial(len(observation.pods))
    return lambda: decide(spec, observation, state, now=observation.at)


def _observation(pods: int) -> Observation:
    """What `observe` makes of a minute of scrapes of `pods` busy pods."""
    fleet = Fleet()
    states = [PodState(f"pod-{i}", f"uid-{i}", PodPhase.READY, NOW - 7200, NOW - 7000) for i in range(pods)]
    for tick in range(5):
        for state in states:
            fleet.record(state.uid, _sample(NOW - 60.0 + 15.0 * tick, tick))
    return observe(states, fleet, now=NOW, interval=15.0, start_seconds=120.0)


def _sample(at: float, tick: int) -> PodSample:
    return PodSample(
        at=at,
        running=40.0,
        waiting=1.0,
        kv_usage=0.3,
        kv_capacity_tokens=480_000.0,
        block_size=16,
        max_num_seqs=256,
        prefix_queries=60_000.0 * tick,
        prefix_hits=20_000.0 * tick,
        prompt_tokens=60_000.0 * tick,
        prompt_tokens_computed=40_000.0 * tick,
        generation_tokens=11_000.0 * tick,
        finished_requests=52.0 * tick,
        preemptions=0.0,
        engine_steps=300.0 * tick,
        engine_busy_seconds=15.0 * tick,
    )


def _requests_per_second() -> float:
    """Requests of the Azure conversation trace simulated per second of CPU time, on one core."""
    recipe = recipe_named("azure-conv")
    started = time.process_time()
    result = simulate(recipe.scenario(), StaticReplicas(8), seed=0)
    return result.whole_run.arrived / (time.process_time() - started)

"""What deciding costs: one service of 16 and of 500 pods, 1,000 services per tick, and reading one scrape.

    python tests/bench/decide_speed.py [--check]

CPU time of this process, so that other load on the machine disturbs little; one core; the median over ticks. Each tick
is new to the scaler and every pod brings a step window, so the fit, the guards and the demand memory all work.
`--check` exits with 1 when a limit is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.state import ScalerState
from kvis_operator.signals.exposition import parse
from kvis_operator.signals.golden import observe
from kvis_operator.signals.observation import Observation, StepWindow
from kvis_operator.signals.series import Fleet
from observations import NOON, TICK, a_pod, a_pod_state, a_sample, a_spec, an_observation, histogram

LIMITS_MS = {"decide, 16 pods": 2.0, "decide, 500 pods": 20.0, "decide, 1,000 services of 4 pods": 2000.0}
TICKS = 60


def observations(pods: int, ticks: int = TICKS) -> list[Observation]:
    """Ticks of a fleet under changing load, with a step window from each pod."""
    made = []
    for i in range(ticks):
        window = StepWindow(
            200.0, 0.05 + 0.001 * (i % 5), 40.0 + 20.0 * (i % 7), 20.0 + i % 5, 20_000.0 + 100.0 * (i % 9)
        )
        fleet = tuple(a_pod(f"pod-{n}", steps=window) for n in range(pods))
        made.append(an_observation(pods, rate=(2.5 + 0.1 * (i % 6)) * pods, at=NOON + i * TICK, pods=fleet))
    return made


def cpu_ms(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return 1000.0 * (time.process_time() - started)


def decide_ms(pods: int) -> float:
    spec, state, times = a_spec(max_replicas=10 * pods), ScalerState.initial(pods), []
    for obs in observations(pods):
        started = time.process_time()
        _, state = decide(spec, obs, state, now=obs.at)
        times.append(1000.0 * (time.process_time() - started))
    return median(times)


def services_ms(services: int, pods: int) -> float:
    """One tick of many services, after ten ticks that filled their states."""
    spec, ticks = a_spec(), observations(pods, 11)
    states = [ScalerState.initial(pods)] * services
    for obs in ticks[:-1]:
        states = [decide(spec, obs, state, now=obs.at)[1] for state in states[:1]] * services
    last = ticks[-1]
    return cpu_ms(lambda: [decide(spec, last, state, now=last.at) for state in states])


def observe_ms(pods: int) -> float:
    fleet = Fleet()
    for i in range(45):
        latency = histogram(*[0.3] * i)
        for n in range(pods):
            fleet.record(f"pod-{n}", a_sample(NOON - 660 + i * TICK, 30.0 * i, ttft=latency, tpot=latency))
    states = [a_pod_state(f"pod-{n}") for n in range(pods)]
    return median(
        cpu_ms(lambda: observe(states, fleet, now=NOON, interval=TICK, start_seconds=120.0)) for _ in range(9)
    )


def parse_ms() -> float:
    """A page of 1,000 lines, 150 of which are needed."""
    needed = [
        f'vllm:{name}_seconds_bucket{{engine="0",le="{i / 10}",model_name="m"}} {i}'
        for name in ("time_to_first_token", "inter_token_latency", "request_time_per_output_token")
        for i in range(50)
    ]
    page = "\n".join([*needed, *(f'other_metric{{engine="0",n="{i}"}} 1.0' for i in range(850))])
    return median(cpu_ms(lambda: parse(page, at=NOON)) for _ in range(9))


def measured() -> dict[str, float]:
    return {
        "decide, 16 pods": decide_ms(16),
        "decide, 500 pods": decide_ms(500),
        "decide, 1,000 services of 4 pods": services_ms(1000, 4),
        "observe, 16 pods": observe_ms(16),
        "observe, 500 pods": observe_ms(500),
        "parse one page": parse_ms(),
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 when a limit is missed")
    check = parser.parse_args(arguments).check
    missed = 0
    for name, value in measured().items():
        limit = LIMITS_MS.get(name)
        missed += limit is not None and value > limit
        print(f"{name:36s} {value:9.2f} ms" + ("" if limit is None else f"   limit {limit:g} ms"))
    return 1 if check and missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

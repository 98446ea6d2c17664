"""Simulated requests per CPU second: the Azure conversation trace, the shipped scaler asked every 15 s.

    python tests/bench/sim_speed.py [--runs N] [--write]

CPU time of this process, so that other load on the machine disturbs little; one core. The figure is the
median of the runs on the trace as recorded; the rows also have four copies of it at once, and the trace
without a scaler.
"""

import argparse
import shlex
import statistics
import sys
import time

import bench_file

from kvis_operator.scaling.spec import ScalingSpec
from kvis_sim.cluster import simulate
from kvis_sim.controller import Controller, StaticReplicas
from kvis_sim.scenario import Scenario
from kvis_sim.scenarios.machines import H100_TP4_70B, Law
from kvis_sim.shipped import ShippedController
from kvis_sim.traces import load_trace
from kvis_sim.workload import multiplied

MACHINE = H100_TP4_70B
REPLICAS = 2  # per copy of the trace


def scenario(copies: int) -> Scenario:
    trace = load_trace("azure-conv")
    return Scenario(
        f"azure-conv x{copies}",
        lambda rng: multiplied(trace, copies, rng),
        duration=trace.duration,
        law=MACHINE.law(Law.MAX_FORM),
        kv_capacity_tokens=MACHINE.kv_capacity_tokens,
        noise=0.05,
        speed_spread=0.05,
        initial_replicas=REPLICAS * copies,
        max_replicas=8 * copies,
    )


def shipped(case: Scenario) -> Controller:
    spec = ScalingSpec(
        min_replicas=1,
        max_replicas=case.max_replicas,
        prior=MACHINE.prior,
        kv_capacity_tokens=MACHINE.kv_capacity_tokens,
        max_num_seqs=case.max_num_seqs,
        ttft_slo_seconds=case.slo.ttft_seconds,
        tpot_slo_seconds=case.slo.tpot_seconds,
    )
    return ShippedController(spec, initial_replicas=case.initial_replicas)


def static(case: Scenario) -> Controller:
    return StaticReplicas(case.initial_replicas)


def measure(case: Scenario, controller: Controller, seed: int) -> dict[str, float | str]:
    began = time.process_time()
    result = simulate(case, controller, seed=seed)
    seconds = time.process_time() - began
    arrived = result.whole_run.arrived
    return {
        "scenario": case.name,
        "controller": controller.name,
        "requests": arrived,
        "cpu_seconds": round(seconds, 3),
        "requests_per_cpu_second": round(arrived / seconds),
        "ticks": result.whole_run.ticks,
        "attainment": round(result.attainment or 0.0, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each case (default 5)")
    parser.add_argument("--write", action="store_true", help="put the figure into build/bench/scaling.json")
    options = parser.parse_args()
    single, fourfold = scenario(1), scenario(4)
    cases = [(single, shipped), (single, static), (fourfold, shipped)]
    rows = [measure(case, build(case), seed) for seed in range(1, options.runs + 1) for case, build in cases]
    for row in rows:
        print("  ".join(f"{value}" for value in row.values()))
    of_figure = [
        float(row["requests_per_cpu_second"])
        for row in rows
        if (row["scenario"], row["controller"]) == (single.name, "kvis")
    ]
    figure = statistics.median(of_figure)
    print(f"sim_requests_per_s {figure:.0f} (from {min(of_figure):.0f} to {max(of_figure):.0f})")
    if options.write:
        bench_file.merge(
            "scaling",
            source="sim_speed",
            command=shlex.join(sys.argv),
            rows=rows,
            figures={"sim_requests_per_s": figure},
        )


if __name__ == "__main__":
    main()

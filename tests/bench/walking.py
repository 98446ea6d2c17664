"""Throughput of our engine against transformers' static-batch `generate`, and whether tokens are the same.

    python tests/bench/walking.py --quick      about 5 minutes on two quiet cores
    python tests/bench/walking.py --full       more runs

Both run in this process, in turns, on the same prompts, with the same threads and float32; our prefix cache
is off, for the prompts are distinct. A run's speed is output tokens by wall time from the first prompt to the
last token. The ratio of each turn's pair is taken and the median reported, since other load on the machine
then hits both sides alike. Figures: vs_transformers_b8, vs_transformers_b32 (above 1: ours is faster),
greedy_mismatches.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# On a busy machine, threads that spin for each other burn the very time that the others need; both sides are
# two to four times as fast without. It must be known before torch starts its threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import bench_file
import greedy
import torch
from transformers import AutoModelForCausalLM

from kvis_kv.dtypes import KVDtype
from kvis_kv.layout import KVLayout
from kvis_kv.models import BUNDLED
from kvis_runtime.engine.config import EngineConfig
from kvis_runtime.engine.request import Request, SamplingParams
from kvis_runtime.model.llm import Engine

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "build/models/smollm2-135m"
PROMPT_TOKENS = 128
OUTPUT_TOKENS = 64
PARTS = ("8", "32", "greedy")

Prompts = list[tuple[int, ...]]
Measured = tuple[list[dict[str, Any]], dict[str, float | None]]


def main() -> int:
    arguments = parse_arguments()
    if not (MODEL / "config.json").is_file():
        print(f"{MODEL} is missing: make model", file=sys.stderr)
        return 1
    torch.set_num_threads(arguments.threads)
    for part in arguments.parts:
        if part == "greedy":
            rows, figures = count_mismatches(arguments.threads)
        else:
            rows, figures = measure_speed(int(part), arguments.runs, arguments.threads)
        # Each part is written as soon as it is known: on a busy machine the next one may take long.
        command = shlex.join(["python", *sys.argv])
        bench_file.merge("walking", source=f"engine {part}", command=command, rows=rows, figures=figures)
        print_summary(rows, figures)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_const", const=5, dest="runs", help="5 pairs a batch size (default)"
    )
    size.add_argument("--full", action="store_const", const=11, dest="runs", help="11 pairs a batch size")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="compute threads of both sides"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=PARTS,
        help="batch sizes to time, or the token comparison",
    )
    parser.set_defaults(runs=5)
    return parser.parse_args()


def measure_speed(batch: int, runs: int, threads: int) -> Measured:
    """Alternating runs of both sides; the figure is the median of the ratios of the pairs."""
    theirs = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    ours = Engine.load(
        EngineConfig(
            MODEL, max_model_len=256, max_num_seqs=batch, enable_prefix_caching=False, threads=threads
        )
    )
    prompts = distinct_prompts(batch)
    sides: dict[str, Callable[[Prompts], int]] = {
        "transformers": lambda p: generate_with(theirs, p),
        "ours": lambda p: serve_with(ours, p),
    }
    for side in sides.values():
        side(prompts[:1])
    rows: list[dict[str, Any]] = []
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(runs):
        for name in sorted(sides, reverse=run % 2 == 0):
            row = {"what": "speed", "engine": name, "batch": batch, "run": run, "threads": threads}
            speeds[name].append(tokens_per_second(sides[name], prompts))
            rows.append(
                row | {"output_tok_per_s": speeds[name][-1], "dtype": "float32", "load": os.getloadavg()[0]}
            )
            print(
                f"batch {batch:2}  run {run + 1}/{runs}  {name:12} {speeds[name][-1]:7.1f} tok/s", flush=True
            )
    ratios = [mine / other for mine, other in zip(speeds["ours"], speeds["transformers"], strict=True)]
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    rows.append(
        {"what": "ratio", "batch": batch, "median": statistics.median(ratios), **spread(ratios), **medians}
    )
    return rows, {f"vs_transformers_b{batch}": round(statistics.median(ratios), 3)}


def spread(ratios: list[float]) -> dict[str, float]:
    """Lowest and highest value of a series."""
    return {"lowest": min(ratios), "highest": max(ratios)}


def tokens_per_second(side: Callable[[Prompts], int], prompts: Prompts) -> float:
    start = time.perf_counter()
    return side(prompts) / (time.perf_counter() - start)


def generate_with(model: Any, prompts: Prompts) -> int:
    """Static batch: all prompts have one length, which is the best case for it.

    Without an end token every sequence runs to the full length, with nothing to check or forbid at each step.
    """
    inputs = torch.tensor(prompts)
    output = model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        do_sample=False,
        eos_token_id=None,
        max_new_tokens=OUTPUT_TOKENS,
    )
    return int(output.shape[0] * (output.shape[1] - inputs.shape[1]))


def serve_with(engine: Engine, prompts: Prompts) -> int:
    """All prompts queued at once."""
    params = SamplingParams(max_tokens=OUTPUT_TOKENS, ignore_eos=True)
    for index, prompt in enumerate(prompts):
        engine.add(Request(str(index), prompt, params))
    tokens = 0
    while engine.has_work():
        tokens += sum(len(output.new_token_ids) for output in engine.step())
    return tokens


def distinct_prompts(count: int) -> Prompts:
    """Prompts without a common prefix; ids from a fixed seed, away from the special ones."""
    generator = torch.Generator().manual_seed(20)
    ids = torch.randint(1000, 40000, (count, PROMPT_TOKENS), generator=generator)
    return [tuple(row) for row in ids.tolist()]


def count_mismatches(threads: int) -> Measured:
    """Greedy tokens of 20 prompts against transformers' in every kind of batch."""
    expected = greedy.references(MODEL)
    prompts = [reference.prompt for reference in expected]
    tight = KVLayout(BUNDLED["smollm2-135m"], KVDtype.FLOAT32, 8).memory_for(640)
    kinds: dict[str, dict[str, Any]] = {
        "alone": {"max_num_seqs": 1, "enable_prefix_caching": False},
        "batch of 16": {"enable_prefix_caching": False, "max_num_batched_tokens": 64},
        "prefix hits": {"repeat": True},
        "preempted": {"block_size": 8, "kv_cache_memory_bytes": tight, "salted": True},
    }
    rows: list[dict[str, Any]] = []
    mismatches = 0
    for kind, settings in kinds.items():
        repeat, salted = settings.pop("repeat", False), settings.pop("salted", False)
        engine = Engine.load(EngineConfig(MODEL, max_model_len=640, threads=threads, **settings))
        if repeat:
            greedy.continue_all(engine, prompts)
        found = greedy.differences(expected, greedy.continue_all(engine, prompts, salted=salted))
        wrong = [difference for difference in found if not difference.is_near_tie]
        mismatches += len(wrong)
        stats = engine.stats()
        rows.append(
            {
                "what": "greedy",
                "kind": kind,
                "prompts": len(prompts),
                "mismatches": len(wrong),
                "differences": [str(difference) for difference in found],
                "prefix_hits": stats.prefix_hits,
                "preemptions": stats.preemptions,
            }
        )
        print(f"greedy, {kind}: {len(wrong)} of {len(prompts)} differ", *found, sep="\n  ", flush=True)
    return rows, {"greedy_mismatches": mismatches}


def print_summary(rows: list[dict[str, Any]], figures: dict[str, float | None]) -> None:
    """The lines a reader wants."""
    for row in (row for row in rows if row["what"] == "ratio"):
        print(
            f"batch {row['batch']}: transformers {row['transformers']:.1f} tok/s, ours {row['ours']:.1f} tok/s;"
            f" ratio {row['median']:.2f} [{row['lowest']:.2f}, {row['highest']:.2f}]"
        )
    for name, value in figures.items():
        print(f"{name}: {value}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

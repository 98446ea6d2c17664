"""`python -m kvis_sim.bench`: runs the scaling benchmark, writes build/bench/scaling.{json,csv,html},
prints the table.

Interrupted or out of time, it writes what it has; called again it continues, because every run is kept as
a row. `--readme` only copies the table of the last JSON between the README's markers.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kvis_sim.bench import output, plan, speed
from kvis_sim.bench.comparison import HEADER, cells, lines
from kvis_sim.bench.figures import figures
from kvis_sim.bench.report import page
from kvis_sim.bench.rows import Row, RowStore, fingerprints
from kvis_sim.bench.runs import run_job
from kvis_sim.bench.schedule import Scheduler
from kvis_sim.bench.search import Outcome
from kvis_sim.bench.tables import tables
from kvis_sim.scenarios.catalogue import recipe_named

QUICK_MINUTES, FULL_MINUTES = 1.7, 175.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    out = Path(options.out)
    if options.readme:
        if not (out / "scaling.json").exists():
            print(
                f"--readme: no {out / 'scaling.json'}; run the benchmark with --out {out} first",
                file=sys.stderr,
            )
            return 2
        output.update_readme(
            Path(options.readme), output.markdown(json.loads((out / "scaling.json").read_text()))
        )
        print(f"{options.readme}: table updated from {out / 'scaling.json'}")
        return 0
    size = plan.QUICK if options.quick else plan.full(options.seeds, options.day_seeds)
    recipes = [recipe_named(name) for name in size.scenarios if options.only in name]
    if not recipes:
        print(f"--only {options.only}: no such scenario; known: {', '.join(size.scenarios)}", file=sys.stderr)
        return 2
    scheduler: Scheduler[Outcome] = Scheduler(
        run_job,
        RowStore(out / "scaling_rows", fingerprints(), any_version=options.keep_rows),
        workers=options.jobs,
        deadline=time.monotonic() + 60.0 * minutes_to_ask(options),
        progress=_Progress(),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: scheduler.stop())
    answers = scheduler.ask(plan.questions(size, recipes))
    print(
        f"\n{answers.simulated} runs simulated, {len(answers.unanswered)} questions left open",
        file=sys.stderr,
    )
    names = [recipe.name for recipe in recipes]
    _write(out, answers.values, names, plan.thinning(size, len(answers.unanswered)), _command(arguments))
    return 0


def minutes_to_ask(options: argparse.Namespace) -> float:
    """Zero simulates nothing: what earlier runs left is all there is."""
    if options.minutes is not None:
        return float(options.minutes)
    return QUICK_MINUTES if options.quick else FULL_MINUTES


def _write(
    out: Path, outcomes: dict[str, Outcome], scenarios: Sequence[str], thinning: str, command: str
) -> None:
    found = figures(outcomes, scenarios)
    measured, measured_rows = speed.measure()
    for name, value in measured.items():
        found.put(name, value)
    rows, further = _distinct(outcomes), tables(outcomes, scenarios)
    findings = output.Findings(found, lines(outcomes, scenarios), rows, measured_rows, thinning)
    document = output.document(findings, command=command, date=datetime.now(UTC))
    output.write_json(out / "scaling.json", document)
    output.write_csv(out / "scaling.csv", rows)
    (out / "scaling.html").write_text(page(document, findings.lines, rows, further))
    for line in [HEADER, *(cells(line) for line in findings.lines)]:
        print(" | ".join(line))
    for name, figure in found.values.items():
        shown = "not measured" if figure is None else f"{figure:.4g}"
        print(f"{name:44s} {shown:>12s}  {found.notes.get(name, '')}")
    print(f"simulated; {out / 'scaling.json'}, scaling.csv, scaling.html")


def _distinct(outcomes: dict[str, Outcome]) -> list[Row]:
    found = {
        (row.scenario, row.method, row.seed): row for outcome in outcomes.values() for row in outcome.rows
    }
    return [found[key] for key in sorted(found)]


def _command(arguments: Sequence[str] | None) -> str:
    given = sys.argv[1:] if arguments is None else arguments
    return " ".join(["python -m kvis_sim.bench", *given])


class _Progress:
    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, done: int, left: int, name: str) -> None:
        if time.monotonic() - self._last < (1.0 if sys.stderr.isatty() else 20.0):
            return
        self._last = time.monotonic()
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"{done} runs done, {left} known to be left; now {name:60.60s}", end=end, file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m kvis_sim.bench", description="The scaling benchmark")
    options.add_argument("--quick", action="store_true", help="three short scenarios, within two minutes")
    options.add_argument(
        "--minutes",
        type=float,
        help="stop asking after so many minutes, 0: at once; default 175, or 1.7 with --quick",
    )
    options.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes; default 2")
    options.add_argument("--seeds", type=int, default=10, help="seeds per scenario; default 10")
    options.add_argument(
        "--day-seeds", type=int, default=10, help="seeds for the day-long scenarios; default 10"
    )
    options.add_argument("--only", default="", help="only scenarios whose name contains this")
    options.add_argument(
        "--keep-rows", action="store_true", help="accept rows made by other versions of the sources"
    )
    options.add_argument("--out", default="build/bench", help="folder for results; default build/bench")
    options.add_argument(
        "--readme", nargs="?", const="README.md", help="only copy the last table into this file"
    )
    return options


if __name__ == "__main__":
    raise SystemExit(main())

"""`kvis simulate`: what would happen to this service under a trace, decided by the very code that the
operator runs.

Replays a trace (bundled by name, or a file) against simulated replicas of the service's profile, beside an
HPA or KEDA rule that the user names; or, given a recording of `kvis record`, replays the recorded signals
through the same decisions. Every number is simulated and labelled so. Exit code 2: the input cannot be
used, and why.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from kvis_operator.cli.recording import RecordingError, is_recording, read_recording
from kvis_operator.cli.replay import replay
from kvis_operator.cli.rival_text import RivalError, parse_rival
from kvis_operator.cli.simulation_report import as_html, as_json, print_replay, print_runs
from kvis_operator.cli.subject_file import InputError
from kvis_operator.cli.trial import Trial, Watched, build_trial, infeasible
from kvis_sim.baselines.rival import Bounds, Rival, Scaler
from kvis_sim.cluster import simulate
from kvis_sim.controller import Controller
from kvis_sim.result import Result
from kvis_sim.scenario import RouterKind
from kvis_sim.shipped import ShippedController
from kvis_sim.traces import NAMES
from kvis_sim.workload import TraceError

EXIT_BAD_INPUT = 2
ALIASES = {"azure": "azure-conv", "mooncake": "mooncake-conversation"}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("simulate", help="replay traffic against a service's settings")
    add = parser.add_argument
    names = ", ".join((*ALIASES, *NAMES))
    add("-f", "--file", required=True, type=Path, metavar="FILE", help="manifest of the service")
    add("--trace", required=True, help=f"a trace file, a recording of `kvis record`, or one of: {names}")
    add("--profile", type=Path, metavar="FILE", help="table of profiles, such as the chart's values")
    add("--versus", metavar="RULE", help="an autoscaler beside ours: hpa:inflight=32[,down=1800], keda:...")
    add("--copies", type=int, default=1, help="replay the trace so many times at once; default 1")
    add("--keep", type=float, default=1.0, help="keep this fraction of the requests; default 1")
    add("--minutes", type=float, help="only the trace's first minutes")
    add("--initial", type=int, help="replicas at the start; default minReplicas")
    add(
        "--router",
        default=RouterKind.LEAST_LOADED,
        choices=list(RouterKind),
        help="how requests find a replica",
    )
    add("--seed", type=int, default=0, help="same seed, same numbers; default 0")
    add("--html", type=Path, metavar="FILE", help="write a report")
    add("--json", type=Path, metavar="FILE", help="write the results")


def run(args: argparse.Namespace) -> int:
    try:
        return _run(args)
    except (InputError, TraceError, RivalError, RecordingError) as error:
        print(f"kvis simulate: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT


def _run(args: argparse.Namespace) -> int:
    rival = parse_rival(args.versus) if args.versus else None
    path = Path(args.trace)
    if path.is_file() and is_recording(path):
        return _replay(args, path, rival)
    trial = build_trial(args, ALIASES.get(args.trace, args.trace))
    if problem := infeasible(trial):
        raise InputError(problem)
    console = Console()
    runs = [
        _simulated(trial, controller, args.seed) for controller in _controllers(trial, rival, args.versus)
    ]
    print_runs(console, trial, runs)
    if args.json:
        args.json.write_text(as_json(trial, runs, seed=args.seed))
    if args.html:
        args.html.write_text(as_html(trial, runs))
    return 0


def _replay(args: argparse.Namespace, path: Path, rival: Callable[[], Scaler] | None) -> int:
    scrapes = read_recording(path)
    replayed = replay(args.file, args.profile, scrapes, rival() if rival else None)
    print_replay(Console(), replayed, versus=args.versus)
    if args.json:
        args.json.write_text(replayed.to_json())
    if args.html:
        raise InputError("--html is for traces; a recording is replayed into the table and --json")
    return 0


def _controllers(trial: Trial, rival: Callable[[], Scaler] | None, label: str | None) -> Iterator[Controller]:
    initial = trial.scenario.initial_replicas
    yield ShippedController(
        trial.spec, initial_replicas=initial, tune_caps=trial.tunes_caps, smallest_cap=trial.smallest_cap
    )
    if rival is not None:
        bounds = Bounds(
            initial, trial.spec.min_replicas, trial.spec.max_replicas, trial.spec.kv_capacity_tokens
        )
        yield Rival(label or "rival", rival(), bounds)


def _simulated(trial: Trial, controller: Controller, seed: int) -> Result:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        end = trial.scenario.duration + trial.scenario.settle
        task = progress.add_task(f"simulating {controller.name}", total=end)
        watched = Watched(controller, lambda seconds: progress.update(task, completed=seconds))
        return simulate(trial.scenario, watched, seed=seed)

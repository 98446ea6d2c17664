"""What `kvis simulate` shows: a terminal table, JSON, and an HTML page. Every number says that it is
simulated.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape

from rich.console import Console
from rich.table import Table

from kvis_operator.cli.replay import Replayed
from kvis_operator.cli.trial import Trial
from kvis_sim.bench import svg
from kvis_sim.bench.report import html_page
from kvis_sim.result import DecisionRecord, Result

COLOURS = ("ours", "inflight")
MOST_DECISIONS = 20
ROWS = (
    "attainment",
    "replica-hours",
    "mean replicas",
    "TTFT p50 / p95",
    "TPOT p50 / p95",
    "prefix hit rate",
    "actions, reversals",
    "minutes in violation",
    "preempted tokens",
    "unfinished or lost",
)


def _cells(run: Result, hours: float) -> tuple[str, ...]:
    return (
        "-" if run.attainment is None else f"{run.attainment:.2%} of {run.offered}",
        f"{run.replica_hours:.2f}",
        f"{run.replica_hours / hours:.2f}",
        f"{_seconds(run.ttft.p50)} / {_seconds(run.ttft.p95)}",
        f"{_seconds(run.tpot.p50)} / {_seconds(run.tpot.p95)}",
        "-" if run.hit_rate is None else f"{run.hit_rate:.1%}",
        f"{run.actions}, {run.reversals}",
        f"{run.violation_minutes} of {len(run.minutes)}",
        f"{run.preempted_tokens}",
        f"{run.unfinished + run.lost + run.rejected}",
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1.0 else f"{value:.2f} s"


def _hours(trial: Trial) -> float:
    return (trial.scenario.duration - trial.scenario.warm_up) / 3600.0


def print_runs(console: Console, trial: Trial, runs: Sequence[Result]) -> None:
    table = Table(title=f"{trial.scenario.name} (simulated)")
    table.add_column("")
    for run in runs:
        table.add_column(run.controller, justify="right")
    columns = [_cells(run, _hours(trial)) for run in runs]
    for index, name in enumerate(ROWS):
        table.add_row(name, *(column[index] for column in columns))
    console.print(table)
    console.print(_decision_table(runs[0]))


def _decision_table(run: Result) -> Table:
    moves = [record for record in run.decisions if record.replicas != record.current]
    table = Table(title=f"Decisions of {run.controller} (simulated)")
    for name in ("at", "replicas", "reason", "numbers"):
        table.add_column(name)
    for record in moves[:MOST_DECISIONS]:
        table.add_row(
            f"{record.at / 60.0:.1f} min",
            f"{record.current} -> {record.replicas}",
            record.reason,
            _numbers(record),
        )
    if len(moves) > MOST_DECISIONS:
        table.add_row("", "", f"and {len(moves) - MOST_DECISIONS} more (--json has all)", "")
    return table


def _numbers(record: DecisionRecord) -> str:
    shown = ("rate_60s", "replica_rate", "need_up", "floor_memory", "kv_usage", "ttft_p95_seconds")
    return ", ".join(f"{name} {record.numbers[name]:.3g}" for name in shown if name in record.numbers)


def print_replay(console: Console, replayed: Replayed, *, versus: str | None) -> None:
    table = Table(title=f"{replayed.service}: recorded signals through the shipped decisions")
    names = ["at (UTC)", "recorded", "kvis", "reason"] + ([versus] if versus else [])
    for name in names:
        table.add_column(name)
    last: tuple[object, ...] | None = None
    for moment in replayed.moments:
        decision = moment.decision
        shown = (moment.recorded, decision.replicas, decision.reason, moment.rival)
        if shown == last:
            continue
        last = shown
        at = datetime.fromtimestamp(moment.at, UTC).isoformat(timespec="seconds")
        cells = [at, str(moment.recorded), str(decision.replicas), str(decision.reason)]
        table.add_row(*cells, *([str(moment.rival)] if versus else []))
    console.print(table)


def as_json(trial: Trial, runs: Sequence[Result], *, seed: int) -> str:
    document = {
        "label": "simulated",
        "service": trial.service,
        "trace": trial.trace.name,
        "seed": seed,
        "runs": [
            {"attainment": run.attainment, "replica_hours": run.replica_hours, **asdict(run)} for run in runs
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def as_html(trial: Trial, runs: Sequence[Result]) -> str:
    columns = [_cells(run, _hours(trial)) for run in runs]
    head = "".join(f"<th>{escape(run.controller)}</th>" for run in runs)
    body = "".join(
        f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{escape(column[index])}</td>" for column in columns)
        for index, name in enumerate(ROWS)
    )
    return html_page(
        f"{trial.scenario.name} (simulated)",
        f"<h1>{escape(trial.scenario.name)}: simulated</h1>",
        f"<div class=wide><table><tr><th></th>{head}</tr>{body}</table></div>",
        f"<div class=plots>{_replicas_plot(trial, runs)}{_attainment_plot(runs)}</div>",
        f"<h2>Decisions of {escape(runs[0].controller)}</h2>",
        _decisions(runs[0]),
    )


def _replicas_plot(trial: Trial, runs: Sequence[Result]) -> str:
    minutes = trial.scenario.duration / 60.0
    series, highest = [], 1.0
    for colour, run in zip(COLOURS, runs, strict=False):
        points = [(point.at / 60.0, float(point.ready)) for point in run.timeline]
        highest = max([highest, *(ready for _, ready in points)])
        series.append(svg.Series(run.controller, colour, points, steps=True))
    return svg.plot(
        "ready replicas",
        svg.Axis("minutes", 0, minutes),
        svg.Axis("ready", 0, svg.rounded_up(highest)),
        series,
    )


def _attainment_plot(runs: Sequence[Result]) -> str:
    series = []
    for colour, run in zip(COLOURS, runs, strict=False):
        points = [
            (float(minute), 100.0 * count.good / count.offered)
            for minute, count in enumerate(run.minutes)
            if count.offered
        ]
        series.append(svg.Series(run.controller, colour, points, lines=True))
    last = max((one.points[-1][0] for one in series if one.points), default=1.0)
    x, y = svg.Axis("minutes after the warm-up", 0, max(1.0, last)), svg.Axis("good", 0, 100, " %")
    return svg.plot("requests within their objectives, by minute of arrival", x, y, series)


def _decisions(run: Result) -> str:
    rows = "".join(
        f"<tr><td>{record.at / 60.0:.1f} min</td><td>{record.current} &rarr; {record.replicas}</td>"
        f"<td>{escape(record.reason)}</td><td><small>{escape(_numbers(record))}</small></td></tr>"
        for record in run.decisions
        if record.replicas != record.current
    )
    return f"<div class=wide><table>{rows}</table></div>"

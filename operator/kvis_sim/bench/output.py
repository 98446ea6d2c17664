"""Writes what was found: the JSON of figures and rows, the raw rows as CSV, and the table between README
markers.
"""

import csv
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from kvis_sim.bench.comparison import HEADER, Line, cells
from kvis_sim.bench.figures import Figures
from kvis_sim.bench.rows import Row

BEGIN, END = "<!-- scaling:begin -->", "<!-- scaling:end -->"
README_FIGURES = (
    (
        "mix_shift_cost_vs_best_inflight_pct",
        "cost on the mix shift, our defaults against the best tuned in-flight rule of at least our attainment",
        "%",
    ),
    (
        "fixed_mix_cost_vs_best_inflight_pct_worst",
        "cost on the worst fixed mix, both tuned to 99 % attainment (95 % where nobody reaches 99)",
        "%",
    ),
    (
        "fixed_mix_cost_at_our_attainment_pct_worst",
        "the same, our defaults against the best tuned rule of at least our attainment",
        "%",
    ),
    (
        "scenarios_won_against_defaults",
        "scenarios in which ours attains more than every rival's defaults",
        "",
    ),
    ("scenarios_total", "scenarios", ""),
    ("static_flat_ratio", "cost over the best fixed count in hindsight, flat day", "x"),
    ("static_peaky_ratio", "the same, worst peaky day", "x"),
    ("cost_vs_clairvoyant_median", "cost over the clairvoyant bound, median", "x"),
    ("reversals_ratio", "reversals over the tuned in-flight rule's, median", "x"),
    ("fault_scale_downs", "replicas removed because of a fault, all fault runs", ""),
    ("noise_actions_24h", "actions in a day of constant load with 20 % noise, worst of six days", ""),
    ("noise_held_out_days_with_actions", "days with an action among a hundred more such days", ""),
    (
        "noise_held_out_days_with_actions_once_settled",
        "the same, without the first hour, in which the replicas that the day was begun with settle",
        "",
    ),
    (
        "wrong_prior_attainment_points_worst",
        "attainment lost to a prior wrong by half, worst scenario",
        "points",
    ),
    ("wrong_prior_cost_pct_worst", "cost added by a prior wrong by half, worst scenario", "%"),
)


def machine() -> str:
    return f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"


@dataclass(frozen=True, slots=True)
class Findings:
    """`measured` are the rows of what was timed on this machine, all other rows are simulated."""

    figures: Figures
    lines: Sequence[Line]
    rows: Sequence[Row]
    measured: Sequence[Mapping[str, object]]
    thinning: str


def document(found: Findings, *, command: str, date: datetime) -> dict[str, Any]:
    notes = [{"figure": name, "note": note} for name, note in found.figures.notes.items()]
    return {
        "machine": machine(),
        "date": date.isoformat(timespec="seconds"),
        "command": command,
        "label": "simulated",
        "thinning": found.thinning,
        "rows": [*notes, *found.measured, *map(_line_row, found.lines), *map(_flat, found.rows)],
        "figures": found.figures.values,
    }


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    names = [field.name for field in fields(Row) if field.name != "extra"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(_flat(row) for row in rows)


def _flat(row: Row) -> dict[str, object]:
    return {name: value for name, value in asdict(row).items() if name != "extra"}


def markdown(document: Mapping[str, Any]) -> str:
    """The README's part, from the JSON alone: figures first, then one line per scenario."""
    figures = document["figures"]
    table = [f"Simulated; `{document['command']}`, {document['date'][:10]}. {document['thinning']}", ""]
    table += ["| Figure | |", "| --- | ---: |"]
    for name, text, unit in README_FIGURES:
        value = figures.get(name)
        shown = "not measured" if value is None else f"{value:.4g} {unit}".strip()
        table.append(f"| {text} | {shown} |")
    table += ["", "| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    table += ["| " + " | ".join(row["cells"]) + " |" for row in document["rows"] if "cells" in row]
    return "\n".join(table)


def _line_row(line: Line) -> dict[str, Any]:
    return {**asdict(line), "cells": list(cells(line))}


def update_readme(readme: Path, table: str) -> None:
    """Replaces what stands between the markers; ValueError when they are not there."""
    text = readme.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{readme} has no {BEGIN} ... {END}; add both lines where the table should stand")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")

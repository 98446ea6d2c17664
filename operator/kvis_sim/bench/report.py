"""The benchmark as one self-contained HTML page: figures, the table of all scenarios, cost against
attainment, replicas over time. Readable in light and dark, without scripts or anything loaded from elsewhere.
"""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from statistics import fmean
from typing import Any

from kvis_sim.bench import svg
from kvis_sim.bench.comparison import HEADER, Line, cells
from kvis_sim.bench.rows import Row
from kvis_sim.bench.statistics import Paired
from kvis_sim.bench.tables import TextTable
from kvis_sim.scenarios.catalogue import recipe_named

GROUPS = (
    ("ours", "KVIS (defaults and margin sweep)", ("kvis",)),
    ("inflight", "HPA/KEDA on requests in flight", ("hpa-inflight", "keda-inflight", "knative", "ray")),
    ("queue", "HPA/KEDA on queue, KV", ("hpa-queue", "keda-queue", "hpa-kv-queue")),
    ("wva", "WVA", ("wva-v1", "wva-v2")),
    ("other", "AIBrix, Dynamo", ("aibrix-apa", "aibrix-kpa", "aibrix-kpa-pods", "dynamo")),
    ("static", "fixed count", ("static",)),
)
LOWEST_ATTAINMENT = 0.7


def page(
    document: Mapping[str, Any], lines: Sequence[Line], rows: Sequence[Row], further: Sequence[TextTable] = ()
) -> str:
    plotted = [line.scenario for line in lines]
    code = f"<code>{escape(document['command'])}</code>"
    return html_page(
        "KVIS scaling benchmark (simulated)",
        "<h1>Scaling benchmark: simulated</h1>",
        f"<p>{escape(document['date'])} on {escape(document['machine'])}: {code}. ",
        f"Every number is simulated unless it says measured. {escape(document['thinning'])}</p>",
        f"<h2>Figures</h2>{_figures(document)}",
        "<h2>Scenarios</h2><p>Ours at its defaults, each rival at the setting searched for that trace. ",
        "Intervals are 95 % paired bootstrap over seeds; negative cost is cheaper; lost ones are marked.</p>",
        _table(lines),
        "<h2>Cost against attainment</h2>",
        "<p>Each dot is one setting, mean over its seeds; up and left is better.</p>",
        _plots(_pareto(scenario, rows) for scenario in plotted),
        "<h2>Replicas over time</h2><p>Wanted replicas, first seed.</p>",
        _plots(_timeline(line, rows) for line in lines),
        *(_text_table(table) for table in further),
    )


def html_page(title: str, *body: str) -> str:
    """A complete page with the reports' style inlined."""
    style = files("kvis_sim.bench").joinpath("report.css").read_text()
    head = "<meta charset=utf-8><meta name=viewport content='width=device-width'>"
    return (
        f"<!doctype html><html lang=en>{head}<title>{escape(title)}</title><style>{style}</style>"
        f"<body>{''.join(body)}</body></html>"
    )


def _figures(document: Mapping[str, Any]) -> str:
    notes = {row["figure"]: row["note"] for row in document["rows"] if "note" in row}
    body = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{_number(value)}</td>"
        f"<td><small>{escape(notes.get(name, ''))}</small></td></tr>"
        for name, value in document["figures"].items()
    )
    return f"<div class=wide><table>{body}</table></div>"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _table(lines: Sequence[Line]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in HEADER)
    body = "".join(f"<tr>{_cells(line)}</tr>" for line in lines)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _text_table(table: TextTable) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in table.header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in table.rows)
    title = f"<h2>{escape(table.title)}</h2><p>{escape(table.note)}</p>"
    return f"{title}<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _cells(line: Line) -> str:
    lost = {
        HEADER.index("Cost against it"): _is_dearer(line.in_flight_cost_pct),
        HEADER.index("Cost, both tuned to 99 %"): _is_dearer(line.level_cost_pct),
        HEADER.index("Best default rival"): line.won is False,
    }
    return "".join(
        f"<td{' class=lost' if lost.get(index) else ''}>{escape(text)}</td>"
        for index, text in enumerate(cells(line))
    )


def _is_dearer(cost: Paired | None) -> bool:
    return cost is not None and cost.mean > 0.0


def _plots(plots: Any) -> str:
    return f"<div class=plots>{''.join(plots)}</div>"


def _pareto(scenario: str, rows: Sequence[Row]) -> str:
    means: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.scenario == scenario:
            means.setdefault((row.family, row.method), []).append(row)
    series = []
    for colour, name, families in GROUPS:
        points = [
            (fmean(row.replica_hours for row in found), 100.0 * fmean(row.attainment for row in found))
            for (family, _), found in means.items()
            if family in families
        ]
        series.append(svg.Series(name, colour, sorted(points)))
    highest = max((cost for one in series for cost, _ in one.points), default=1.0)
    x = svg.Axis("replica-hours (simulated)", 0.0, svg.rounded_up(highest))
    y = svg.Axis("attainment", 100.0 * LOWEST_ATTAINMENT, 100.0, " %")
    return svg.plot(scenario, x, y, series)


def _timeline(line: Line, rows: Sequence[Row]) -> str:
    hours = recipe_named(line.scenario).duration / 3600.0
    series, highest = [], 1.0
    for colour, name, method in (("ours", "KVIS", "kvis"), ("inflight", line.in_flight, line.in_flight)):
        found = next((row for row in rows if (row.scenario, row.method) == (line.scenario, method)), None)
        if found is None:
            continue
        points = [(at / 3600.0, float(replicas)) for at, replicas, _ in found.extra["desired"]]
        points.append((hours, points[-1][1] if points else 0.0))
        highest = max(highest, *(replicas for _, replicas in points))
        series.append(svg.Series(name, colour, points, steps=True))
    x, y = svg.Axis("hours", 0.0, hours), svg.Axis("replicas", 0.0, svg.rounded_up(highest))
    return svg.plot(line.scenario, x, y, series)

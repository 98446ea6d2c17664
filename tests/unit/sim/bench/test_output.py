"""What the benchmark writes: figures with null for what was not measured, raw rows, the README's table, the page."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kvis_sim.bench import output
from kvis_sim.bench.comparison import lines
from kvis_sim.bench.figures import figures
from kvis_sim.bench.methods import IN_FLIGHT_RIVALS, Method
from kvis_sim.bench.report import page
from kvis_sim.bench.rows import Row
from kvis_sim.bench.search import Outcome

MUST_REPORT = (
    "mix_shift_cost_vs_best_inflight_pct",
    "fixed_mix_cost_vs_best_inflight_pct_worst",
    "fixed_mix_cost_at_our_attainment_pct_worst",
    "scenarios_total",
    "scenarios_won_against_defaults",
    "static_flat_ratio",
    "static_peaky_ratio",
    "cost_vs_clairvoyant_median",
    "reversals_ratio",
    "fault_scale_downs",
    "noise_actions_24h",
    "noise_held_out_days_with_actions",
    "noise_held_out_days_with_actions_once_settled",
)


def rows(method: Method, cost: float) -> tuple[Row, ...]:
    timeline = {"desired": [[0.0, 2, "WithinCapacity"], [600.0, 3, "Capacity"]]}
    return tuple(
        Row("ramp", method.family, method.label, seed, 100, 0.99, cost, extra=timeline) for seed in range(2)
    )


@pytest.fixture
def findings() -> output.Findings:
    rival = IN_FLIGHT_RIVALS[0]
    outcomes = {
        "ramp|ours": Outcome("ramp", "kvis", "kvis", rows(Method("kvis"), 9.0)),
        "ramp|as-ours|in-flight": Outcome("ramp", rival.label, rival.family, rows(rival, 10.0), 0.99),
    }
    every = [row for outcome in outcomes.values() for row in outcome.rows]
    return output.Findings(figures(outcomes, ["ramp"]), lines(outcomes, ["ramp"]), every, [], "2 seeds.")


@pytest.fixture
def document(findings: output.Findings) -> dict[str, Any]:
    return output.document(findings, command="bench", date=datetime(2026, 1, 2, tzinfo=UTC))


def test_every_figure_is_there_and_null_comes_with_a_reason(document: dict[str, Any]) -> None:
    notes = {row["figure"] for row in document["rows"] if "note" in row}
    for name in MUST_REPORT:
        assert name in document["figures"]
        assert (
            document["figures"][name] is not None or name in notes or name == "scenarios_won_against_defaults"
        )


def test_the_document_is_plain_json_and_labelled(document: dict[str, Any], tmp_path: Path) -> None:
    output.write_json(tmp_path / "b" / "scaling.json", document)
    assert json.loads((tmp_path / "b" / "scaling.json").read_text())["label"] == "simulated"


def test_raw_rows_are_one_line_each(findings: output.Findings, tmp_path: Path) -> None:
    output.write_csv(tmp_path / "rows.csv", findings.rows)
    with (tmp_path / "rows.csv").open() as file:
        read = list(csv.DictReader(file))
    assert [row["method"] for row in read] == [
        "kvis",
        "kvis",
        "hpa-inflight(down=300)",
        "hpa-inflight(down=300)",
    ]


def test_the_readme_changes_only_between_its_markers(document: dict[str, Any], tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{output.BEGIN}\nold\n{output.END}\nafter\n")
    output.update_readme(readme, output.markdown(document))
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| ramp | 99.00%, 9.0 |" in text
    assert "Simulated" in text


def test_a_readme_without_markers_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing here")
    with pytest.raises(ValueError, match="scaling:begin"):
        output.update_readme(tmp_path / "README.md", output.markdown(document))


def test_the_page_loads_nothing_and_follows_the_theme(
    findings: output.Findings, document: dict[str, Any]
) -> None:
    html = page(document, findings.lines, findings.rows)
    assert "http" not in html
    assert "<script" not in html
    assert "prefers-color-scheme" in html
    assert html.count("<svg") == 2

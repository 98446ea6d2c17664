"""Copies the walking product's figures from build/bench/walking.json into the README, between its markers.

`python tests/bench/readme.py` after `make bench`, `make bench-idle` and `make demo`. A figure that was not
measured is shown as such.
"""

import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent.parent
SOURCE = ROOT / "build" / "bench" / "walking.json"
BEGIN, END = "<!-- walking:begin -->", "<!-- walking:end -->"
MEANING = {
    "vs_transformers_b8": "output tokens/s over transformers' static-batch `generate`, batch 8",
    "vs_transformers_b32": "the same, batch 32",
    "greedy_mismatches": "greedy tokens that differ from transformers (20 prompts, float32, four ways)",
    "idle_writes_10min": "API writes beside the Lease in 10 min with 20 idle services",
    "demo_requests_lost": "requests lost in the demo",
    "demo_peak_replicas": "replicas at the demo's peak",
    "demo_cap_changes": "live cap changes on running pods in the demo",
}


def table(report: dict[str, Any]) -> str:
    figures = report["figures"]
    lines = [
        f"{report['machine']}, {report['date'][:10]}, `make bench`, `make bench-idle` and `make demo`:",
        "",
    ]
    lines += ["| figure | value | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {_value(figures.get(name))} | {meaning} |" for name, meaning in MEANING.items()]
    return "\n".join(lines)


def _value(figure: float | None) -> str:
    return "not measured" if figure is None else f"{figure:.2f}".rstrip("0").rstrip(".")


def insert(readme: str, text: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> None:
    readme = ROOT / "README.md"
    readme.write_text(insert(readme.read_text(), table(json.loads(SOURCE.read_text()))))


if __name__ == "__main__":
    main()

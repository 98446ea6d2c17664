"""The benchmark's further tables: cost at fixed attainment, one setting for all, ablations, factors, faults, priors.

Each is a header and rows of text, made from outcomes alone; what was not simulated is left out of its table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from kvis_sim.bench.disturbance import disturbance
from kvis_sim.bench.figures import Outcomes
from kvis_sim.bench.search import Outcome
from kvis_sim.bench.statistics import hypervolume

ENOUGH = 0.95


@dataclass(frozen=True, slots=True)
class TextTable:
    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(outcomes: Outcomes, scenarios: Sequence[str]) -> list[TextTable]:
    made = (
        cost_at(outcomes, scenarios, "0.99"),
        cost_at(outcomes, scenarios, "0.95"),
        one_setting(outcomes, scenarios),
        parts(outcomes, scenarios, "ablation", "Ablations", "One part of ours left out, against all of it."),
        parts(outcomes, scenarios, "prior", "Wrong priors", "The profile's step times off by a factor."),
        factors(outcomes),
        faults(outcomes),
        pareto(outcomes, scenarios),
    )
    return [table for table in made if table.rows]


def cost_at(outcomes: Outcomes, scenarios: Sequence[str], level: str) -> TextTable:
    """Each method at the cheapest value of its one parameter that reaches the level."""
    found = {
        scenario: {
            name.split("|")[2]: outcome
            for name, outcome in outcomes.items()
            if name.startswith(f"{scenario}|level|") and name.endswith(f"|{level}")
        }
        for scenario in scenarios
    }
    methods = sorted({method for costs in found.values() for method in costs}, key=lambda m: (m != "kvis", m))
    rows = tuple(
        (scenario, *(_cost(costs.get(method)) for method in methods))
        for scenario, costs in found.items()
        if costs
    )
    note = "Replica-hours; where no setting reaches it, the best attainment in brackets."
    return TextTable(f"Cost at {float(level):.0%} attainment", note, ("Scenario", *methods), rows)


def _cost(outcome: Outcome | None) -> str:
    if outcome is None:
        return "-"
    return f"{outcome.replica_hours:.1f}" if outcome.reached else f"({outcome.attainment:.1%})"


def one_setting(outcomes: Outcomes, scenarios: Sequence[str]) -> TextTable:
    """In-flight HPA (1800 s) with one target for all scenarios, against ours on the same seeds."""
    by_target: dict[str, dict[str, Outcome]] = {}
    for name, outcome in outcomes.items():
        scenario, _, rest = name.partition("|")
        if rest.startswith("one-setting|") and scenario in scenarios and f"{scenario}|ours" in outcomes:
            by_target.setdefault(rest.split("|")[1], {})[scenario] = outcome
    rows = tuple(
        (
            f"target {target}",
            f"{sum(outcome.attainment >= ENOUGH for outcome in runs.values())} of {len(runs)}",
            f"{sum(outcomes[f'{scenario}|ours'].attainment >= ENOUGH for scenario in runs)} of {len(runs)}",
            f"{median(100.0 * (_ours_cost(outcomes, run) / run.replica_hours - 1.0) for run in runs.values()):+.1f} %",
        )
        for target, runs in sorted(by_target.items(), key=lambda item: float(item[0]))
    )
    header = ("One setting for all", "reaches 95 %", "ours reaches 95 %", "our cost against it, median")
    return TextTable("One in-flight setting for all scenarios", "HPA, 1800 s window.", header, rows)


def _ours_cost(outcomes: Outcomes, run: Outcome) -> float:
    seeds = {row.seed for row in run.rows}
    return fmean(row.replica_hours for row in outcomes[f"{run.scenario}|ours"].rows if row.seed in seeds)


def parts(outcomes: Outcomes, scenarios: Sequence[str], kind: str, title: str, note: str) -> TextTable:
    changes: dict[str, list[tuple[float, float]]] = {}
    for name, outcome in outcomes.items():
        scenario, *rest = name.split("|")
        if rest[:1] == [kind] and scenario in scenarios and f"{scenario}|ours" in outcomes:
            changes.setdefault(rest[1], []).append(_change(outcomes[f"{scenario}|ours"], outcome))
    rows = tuple(
        (
            name,
            f"{fmean(points for points, _ in found):+.2f} [{min(points for points, _ in found):+.2f}]",
            f"{fmean(cost for _, cost in found):+.1f} % [{max(cost for _, cost in found):+.1f} %]",
            str(len(found)),
        )
        for name, found in sorted(changes.items())
    )
    return TextTable(
        title, note, ("", "attainment, points: mean [worst]", "cost: mean [worst]", "scenarios"), rows
    )


def _change(ours: Outcome, other: Outcome) -> tuple[float, float]:
    """Points of attainment and percent of cost by which `other` differs from ours, on the seeds of both."""
    seeds = {row.seed for row in other.rows}
    paired = [row for row in ours.rows if row.seed in seeds]
    points = 100.0 * (other.attainment - fmean(row.attainment for row in paired))
    return points, 100.0 * (other.replica_hours / fmean(row.replica_hours for row in paired) - 1.0)


def factors(outcomes: Outcomes) -> TextTable:
    rows = []
    for name, ours in outcomes.items():
        scenario, *rest = name.split("|")
        if rest != ["ours"] or "/" not in scenario or scenario.startswith(("fault", "noise")):
            continue
        rival = outcomes.get(f"{scenario}|as-ours|in-flight")
        against = "-"
        if rival is not None:
            against = (
                f"{100.0 * (ours.replica_hours / rival.replica_hours - 1.0):+.1f} % ({rival.attainment:.2%})"
            )
        rows.append((scenario, f"{ours.attainment:.2%}", f"{ours.replica_hours:.1f}", against))
    header = (
        "Scenario / factor",
        "attainment",
        "replica-hours",
        "cost against tuned in-flight (its attainment)",
    )
    return TextTable(
        "Factors", "Step-time laws, noise, start times, routers, objectives.", header, tuple(rows)
    )


def faults(outcomes: Outcomes) -> TextTable:
    rows = []
    for name in sorted(outcomes):
        scenario = name.split("|")[0]
        if scenario.startswith("fault") and not scenario.endswith("/none"):
            effect = disturbance(outcomes, scenario)
            rows.append((scenario, str(effect.removed), str(effect.added), str(effect.recovery_ticks)))
    header = (
        "Fault",
        "replicas removed by it, all seeds",
        "added, worst seed",
        "ticks to recover, worst seed",
    )
    return TextTable("Faults", "Against the same seed without the fault.", header, tuple(rows))


def pareto(outcomes: Outcomes, scenarios: Sequence[str]) -> TextTable:
    """Area under cost against attainment, as a share of the largest on that scenario."""
    rows = []
    for scenario in scenarios:
        areas = _areas(outcomes, scenario)
        best = max(areas.values(), default=0.0)
        if len(areas) > 1 and best > 0.0:
            ranked = sorted(areas, key=lambda family: -areas[family])
            rows.append((scenario, ", ".join(f"{family} {areas[family] / best:.3f}" for family in ranked)))
    note = "Hypervolume up to the dearest setting tried, 1 is the best family; from all settings run."
    return TextTable("Pareto hypervolume", note, ("Scenario", "families"), tuple(rows))


def _areas(outcomes: Outcomes, scenario: str) -> Mapping[str, float]:
    points: dict[str, set[tuple[float, float]]] = {}
    for name, outcome in outcomes.items():
        if (
            name.startswith(f"{scenario}|")
            and outcome.family != "clairvoyant"
            and "-no-" not in outcome.family
        ):
            found = points.setdefault(outcome.family, set())
            found.add((outcome.replica_hours, outcome.attainment))
            if "in-flight" not in name:
                found.update(outcome.tried.values())
    worst = max((cost for found in points.values() for cost, _ in found), default=0.0)
    return {family: hypervolume(sorted(found), worst_cost=worst) for family, found in points.items()}

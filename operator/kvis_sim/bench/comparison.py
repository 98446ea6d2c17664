"""The table that a reader wants: one line per scenario, lost ones among them, with intervals where seeds
allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvis_sim.bench.figures import (
    Outcomes,
    at_level,
    at_our_attainment,
    kind_of,
    ratio_to,
    won_against_defaults,
)
from kvis_sim.bench.methods import DEFAULT_RIVALS
from kvis_sim.bench.search import Outcome
from kvis_sim.bench.statistics import Paired, holm, paired_bootstrap
from kvis_sim.scenarios.recipe import Kind

STATISTICS_SEED = 20_260_101


@dataclass(frozen=True, slots=True)
class Line:
    """Costs in replica-hours, attainments 0-1, percent of the rival's cost (negative: ours is cheaper)."""

    scenario: str
    kind: Kind
    seeds: int
    attainment: float
    replica_hours: float
    reversals: float
    violation_minutes: float
    in_flight: str
    in_flight_attainment: float | None
    in_flight_cost_pct: Paired | None
    in_flight_reversals: float | None
    level_note: str
    level: float | None
    level_cost_pct: Paired | None
    level_shortfall: str
    best_default: str
    best_default_attainment: float | None
    attainment_gain: Paired | None
    attainment_p_holm: float | None
    static_ratio: float | None
    clairvoyant_ratio: float | None
    won: bool | None


def lines(outcomes: Outcomes, scenarios: Sequence[str]) -> list[Line]:
    return [
        _line(outcomes, scenario, outcomes[f"{scenario}|ours"])
        for scenario in scenarios
        if f"{scenario}|ours" in outcomes
    ]


def _line(outcomes: Outcomes, scenario: str, ours: Outcome) -> Line:
    equal, level = at_our_attainment(outcomes, scenario), at_level(outcomes, scenario)
    best = _best_default(outcomes, scenario)
    gains = {outcome.method: _gain(ours, outcome) for outcome in _defaults(outcomes, scenario)}
    corrected = holm({name: gain.p_value for name, gain in gains.items() if gain is not None})
    count = len(ours.rows)
    return Line(
        scenario=scenario,
        kind=kind_of(scenario),
        seeds=count,
        attainment=ours.attainment,
        replica_hours=ours.replica_hours,
        reversals=sum(row.reversals for row in ours.rows) / count,
        violation_minutes=sum(row.violation_minutes for row in ours.rows) / count,
        in_flight=equal.rival.method if equal else "",
        in_flight_attainment=equal.rival.attainment if equal else None,
        in_flight_cost_pct=paired_bootstrap(equal.percents, seed=STATISTICS_SEED) if equal else None,
        in_flight_reversals=(
            sum(row.reversals for row in equal.rival.rows) / len(equal.rival.rows) if equal else None
        ),
        level_note=level.note if level else "",
        level=level.level if level else None,
        level_shortfall=level.shortfall if level else "",
        level_cost_pct=paired_bootstrap(level.percents, seed=STATISTICS_SEED) if level else None,
        best_default=best.method if best else "",
        best_default_attainment=best.attainment if best else None,
        attainment_gain=gains.get(best.method) if best else None,
        attainment_p_holm=corrected.get(best.method) if best else None,
        static_ratio=ratio_to(outcomes, scenario, "as-ours|static"),
        clairvoyant_ratio=ratio_to(outcomes, scenario, "clairvoyant"),
        won=won_against_defaults(outcomes, scenario),
    )


def _defaults(outcomes: Outcomes, scenario: str) -> list[Outcome]:
    names = [f"{scenario}|default|{method.label}" for method in DEFAULT_RIVALS]
    return [outcomes[name] for name in names if name in outcomes]


def _best_default(outcomes: Outcomes, scenario: str) -> Outcome | None:
    return max(_defaults(outcomes, scenario), key=lambda outcome: outcome.attainment, default=None)


def _gain(ours: Outcome, rival: Outcome) -> Paired | None:
    theirs = {row.seed: row.attainment for row in rival.rows}
    differences = [row.attainment - theirs[row.seed] for row in ours.rows if row.seed in theirs]
    return paired_bootstrap(differences, seed=STATISTICS_SEED)


HEADER = (
    "Scenario",
    "Ours: attainment, replica-h",
    "Best tuned in-flight with at least ours",
    "Cost against it",
    "Cost, both tuned to 99 %",
    "Best default rival",
    "vs static N",
    "vs clairvoyant",
    "Reversals (ours / tuned)",
)


def cells(line: Line) -> tuple[str, ...]:
    return (
        line.scenario,
        f"{line.attainment:.2%}, {line.replica_hours:.1f}",
        f"{line.in_flight} {percent(line.in_flight_attainment)}" if line.in_flight else "-",
        interval(line.in_flight_cost_pct),
        _tuned(line),
        f"{line.best_default} {percent(line.best_default_attainment)}" if line.best_default else "-",
        "-" if line.static_ratio is None else f"{line.static_ratio:.2f}x",
        "-" if line.clairvoyant_ratio is None else f"{line.clairvoyant_ratio:.2f}x",
        f"{line.reversals:.1f} / {count(line.in_flight_reversals)}",
    )


def _tuned(line: Line) -> str:
    """With the level where it is not 99 %, and who does not reach it."""
    level = f" at {line.level:.0%}" if line.level not in (None, 0.99) else ""
    return (
        f"{interval(line.level_cost_pct)}{level}{f', {line.level_shortfall}' if line.level_shortfall else ''}"
    )


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def count(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def interval(paired: Paired | None) -> str:
    if paired is None:
        return "-"
    return f"{paired.mean:+.1f} % [{paired.low:+.1f}, {paired.high:+.1f}]"

"""From outcomes to the benchmark's figures. A figure that could not be measured is None, with its reason.

Costs are replica-hours from creation to termination between warm-up and end, so a loading replica is paid.
Equal attainment means two things. At ours: our defaults against the cheapest rival setting that attains at least as
much. At 99 %, or 95 % where nobody reaches 99: ours swept over its margin as the rivals are over their target, both at
their two windows. Percentages are medians over the seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median

from kvis_sim.bench.disturbance import disturbance, replicas_over_time
from kvis_sim.bench.methods import DEFAULT_RIVALS
from kvis_sim.bench.rows import Row
from kvis_sim.bench.search import Outcome
from kvis_sim.scenarios.catalogue import DAY, recipe_named
from kvis_sim.scenarios.faults import COOLS_DOWN, TAKES_CAPACITY
from kvis_sim.scenarios.recipe import DAYS, Kind

Outcomes = Mapping[str, Outcome]
SHIFTS = frozenset({Kind.MIX_SHIFT, Kind.HIT_SHIFT})
SETTLING = 3600.0  # seconds in which replicas that a day was begun with become those that its load takes


@dataclass(slots=True)
class Figures:
    values: dict[str, float | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)  # why a figure is None, or how it was compared

    def put(self, name: str, value: float | None, note: str = "") -> None:
        self.values[name] = value
        if note:
            self.notes[name] = note


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours against one rival on one scenario: cost difference in percent per seed, and how it came about."""

    scenario: str
    ours: Outcome
    rival: Outcome
    percents: tuple[float, ...]
    note: str
    level: float | None = None  # attainment that both are tuned to
    shortfall: str = ""  # who does not reach it

    @property
    def percent(self) -> float:
        """Median over the seeds."""
        return median(self.percents)


def kind_of(scenario: str) -> Kind:
    return recipe_named(scenario).kind


def best_in_flight(outcomes: Outcomes, scenario: str, level: str) -> Outcome | None:
    """The cheapest tuned in-flight HPA or KEDA that reaches the level; when none does, the best one."""
    return outcomes.get(
        f"{scenario}|{'as-ours|in-flight' if level == 'ours' else f'level|in-flight|{level}'}"
    )


def percents(ours: Sequence[Row], rival: Sequence[Row]) -> tuple[float, ...]:
    costs = {row.seed: row.replica_hours for row in rival}
    return tuple(
        100.0 * (row.replica_hours / costs[row.seed] - 1.0) for row in ours if costs.get(row.seed, 0.0) > 0.0
    )


def at_our_attainment(outcomes: Outcomes, scenario: str) -> Comparison | None:
    ours, rival = outcomes.get(f"{scenario}|ours"), best_in_flight(outcomes, scenario, "ours")
    if ours is None or rival is None:
        return None
    note = f"{rival.method} at {rival.attainment:.4f} against ours at {ours.attainment:.4f}"
    if not rival.reached:
        note += "; no tuned in-flight setting attains as much"
    return Comparison(scenario, ours, rival, percents(ours.rows, rival.rows), note)


def at_level(outcomes: Outcomes, scenario: str) -> Comparison | None:
    """Both tuned to 99 %, or to 95 % where neither reaches 99. Who falls short of the level is named."""
    for level in ("0.99", "0.95"):
        ours = outcomes.get(f"{scenario}|level|kvis|{level}")
        rival = best_in_flight(outcomes, scenario, level)
        if ours is None or rival is None:
            return None
        if level == "0.95" or ours.reached or rival.reached:
            return _both_tuned(scenario, ours, rival, level)
    return None


def _both_tuned(scenario: str, ours: Outcome, rival: Outcome, level: str) -> Comparison:
    note = f"at {level}: {ours.method} {ours.attainment:.4f}, {rival.method} {rival.attainment:.4f}"
    short = [name for name, outcome in (("ours", ours), ("theirs", rival)) if not outcome.reached]
    shortfall = f"not reached by {' and '.join(short)}" if short else ""
    found = percents(ours.rows, rival.rows)
    return Comparison(scenario, ours, rival, found, note, float(level), shortfall)


def won_against_defaults(outcomes: Outcomes, scenario: str) -> bool | None:
    ours = outcomes.get(f"{scenario}|ours")
    rivals = [outcomes.get(f"{scenario}|default|{method.label}") for method in DEFAULT_RIVALS]
    if ours is None or any(rival is None for rival in rivals):
        return None
    return all(rival is not None and ours.attainment > rival.attainment for rival in rivals)


def ratio_to(outcomes: Outcomes, scenario: str, rival_name: str) -> float | None:
    ours, rival = outcomes.get(f"{scenario}|ours"), outcomes.get(f"{scenario}|{rival_name}")
    if ours is None or rival is None or rival.replica_hours <= 0.0:
        return None
    return ours.replica_hours / rival.replica_hours


def figures(outcomes: Outcomes, scenarios: Sequence[str]) -> Figures:
    found = Figures()
    _against_in_flight(found, outcomes, scenarios)
    _against_defaults(found, outcomes, scenarios)
    _against_yardsticks(found, outcomes, scenarios)
    _reversals(found, outcomes, scenarios)
    _faults(found, outcomes)
    _noise(found, outcomes)
    _wrong_prior(found, outcomes, scenarios)
    return found


def _worst(found: Figures, name: str, comparisons: Sequence[Comparison | None]) -> None:
    known = [comparison for comparison in comparisons if comparison is not None and comparison.percents]
    if not known:
        found.put(name, None, "not simulated in this run")
        return
    worst = max(known, key=lambda comparison: comparison.percent)
    parts = (worst.note, worst.shortfall, f"{len(known)} scenarios compared")
    found.put(name, worst.percent, f"{worst.scenario}: {'; '.join(part for part in parts if part)}")


def _against_in_flight(found: Figures, outcomes: Outcomes, scenarios: Sequence[str]) -> None:
    shifts = [name for name in scenarios if kind_of(name) is Kind.MIX_SHIFT]
    fixed = [name for name in scenarios if kind_of(name) not in SHIFTS]
    name = "mix_shift_cost_vs_best_inflight_pct"
    _worst(found, name, [at_our_attainment(outcomes, scenario) for scenario in shifts])
    name = "fixed_mix_cost_vs_best_inflight_pct_worst"
    _worst(found, name, [at_level(outcomes, scenario) for scenario in fixed])
    name = "fixed_mix_cost_at_our_attainment_pct_worst"
    _worst(found, name, [at_our_attainment(outcomes, scenario) for scenario in fixed])


def _against_defaults(found: Figures, outcomes: Outcomes, scenarios: Sequence[str]) -> None:
    verdicts = {scenario: won_against_defaults(outcomes, scenario) for scenario in scenarios}
    known = [verdict for verdict in verdicts.values() if verdict is not None]
    lost = sorted(scenario for scenario, verdict in verdicts.items() if verdict is False)
    found.put("scenarios_total", float(len(known)) if known else None, "" if known else "not simulated")
    won = float(sum(known)) if known else None
    found.put("scenarios_won_against_defaults", won, f"not won: {', '.join(lost)}" if lost else "")


def _against_yardsticks(found: Figures, outcomes: Outcomes, scenarios: Sequence[str]) -> None:
    for name, kind in (("static_flat_ratio", Kind.FLAT_DAY), ("static_peaky_ratio", Kind.PEAKY_DAY)):
        ratios = {
            scenario: ratio
            for scenario in scenarios
            if kind_of(scenario) is kind
            and (ratio := ratio_to(outcomes, scenario, "as-ours|static")) is not None
        }
        worst = max(ratios, key=lambda scenario: ratios[scenario], default=None)
        found.put(name, ratios[worst] if worst else None, worst or "no such day was simulated in this run")
    ratios = {
        scenario: ratio
        for scenario in scenarios
        if (ratio := ratio_to(outcomes, scenario, "clairvoyant")) is not None
    }
    value = median(ratios.values()) if ratios else None
    found.put("cost_vs_clairvoyant_median", value, "" if ratios else "not simulated in this run")


def _reversals(found: Figures, outcomes: Outcomes, scenarios: Sequence[str]) -> None:
    ratios = []
    for scenario in scenarios:
        comparison = at_our_attainment(outcomes, scenario)
        if comparison is None:
            continue
        ours = sum(row.reversals for row in comparison.ours.rows)
        rival = sum(row.reversals for row in comparison.rival.rows)
        if rival or ours:
            ratios.append(ours / rival if rival else float(ours))
    note = f"{len(ratios)} scenarios in which either turned round; where only ours did, its count"
    found.put(
        "reversals_ratio", median(ratios) if ratios else None, note if ratios else "nobody turned round"
    )


def _faults(found: Figures, outcomes: Outcomes) -> None:
    effects = {
        name.split("|")[0]: disturbance(outcomes, name.split("|")[0])
        for name in outcomes
        if name.startswith("fault") and not name.split("|")[0].endswith("/none")
    }
    if not effects:
        for name in ("fault_scale_downs", "fault_added_replicas_max", "fault_recovery_ticks_max"):
            found.put(name, None, "faults were not simulated in this run")
        return
    inputs = {name: effect for name, effect in effects.items() if name.split("/")[1] not in TAKES_CAPACITY}
    steady = {
        name: effect
        for name, effect in inputs.items()
        if name.startswith("fault/") and name.split("/")[1] not in COOLS_DOWN
    }
    removed = {name: effect.removed for name, effect in effects.items() if effect.removed}
    found.put(
        "fault_scale_downs", float(sum(effect.removed for effect in effects.values())), str(removed or "")
    )
    added = max(inputs, key=lambda name: inputs[name].added, default="")
    found.put("fault_added_replicas_max", float(inputs[added].added) if added else None, added)
    slowest = max(steady, key=lambda name: steady[name].recovery_ticks, default="")
    note = f"{slowest}; steady load, without alerts, whose replica leaves by the normal cool-down"
    found.put("fault_recovery_ticks_max", float(steady[slowest].recovery_ticks) if slowest else None, note)


def _noise(found: Figures, outcomes: Outcomes) -> None:
    missing = "the noise run was not simulated in this run"
    actions = [row.actions for row in _noise_days(outcomes, "ours")]
    note = f"{len(actions)} days of constant load" if actions else missing
    found.put("noise_actions_24h", float(max(actions)) if actions else None, note)
    days = _noise_days(outcomes, "held-out")
    for name, since in (("", 0.0), ("_once_settled", SETTLING)):
        moves = [_moves_within_the_day(row, since) for row in days]
        note = f"of {len(moves)} days, at most {max(moves)} actions" if moves else missing
        value = float(sum(map(bool, moves))) if moves else None
        found.put(f"noise_held_out_days_with_actions{name}", value, note)


def _noise_days(outcomes: Outcomes, question: str) -> list[Row]:
    names = [name for name in outcomes if name.startswith("noise-24h/") and name.endswith(f"|{question}")]
    return [row for name in names for row in outcomes[name].rows]


def _moves_within_the_day(row: Row, since: float) -> int:
    """Changes of replicas from `since` on and before the load ends: what is given up when it drains away is no answer
    to noise.
    """
    wanted = [(at, replicas) for at, replicas in replicas_over_time(row) if at <= DAY]
    return sum(before != after and at >= since for (_, before), (at, after) in pairwise(wanted))


def _wrong_prior(found: Figures, outcomes: Outcomes, scenarios: Sequence[str]) -> None:
    lost, dearer = [], []
    for name, wrong in outcomes.items():
        scenario, *rest = name.split("|")
        right = outcomes.get(f"{scenario}|ours")
        if rest[:1] != ["prior"] or right is None or scenario not in scenarios:
            continue
        seeds = {row.seed for row in wrong.rows}
        paired = [row for row in right.rows if row.seed in seeds]
        lost.append(100.0 * (fmean(row.attainment for row in paired) - wrong.attainment))
        dearer.append(100.0 * (wrong.replica_hours / fmean(row.replica_hours for row in paired) - 1.0))
    note = "" if lost else "wrong priors were not simulated in this run"
    found.put("wrong_prior_attainment_points_worst", max(lost, default=None), note)
    found.put("wrong_prior_cost_pct_worst", max(dearer, default=None), note)


def is_day(scenario: str) -> bool:
    return kind_of(scenario) in DAYS

"""Figures from hand-made outcomes: who is compared with whom, and what is said when nothing was measured."""

from dataclasses import replace

import pytest

from kvis_sim.bench import report
from kvis_sim.bench.comparison import cells, lines
from kvis_sim.bench.figures import figures, won_against_defaults
from kvis_sim.bench.methods import DEFAULT_RIVALS, IN_FLIGHT_RIVALS, Method
from kvis_sim.bench.rows import Row
from kvis_sim.bench.search import Outcome
from kvis_sim.bench.tables import tables


def outcome(
    scenario: str,
    method: Method,
    attainment: float,
    cost: float,
    level: float | None = None,
    reversals: int = 0,
) -> Outcome:
    rows = tuple(
        Row(scenario, method.family, method.label, seed, 100, attainment, cost, reversals=reversals)
        for seed in range(3)
    )
    return Outcome(scenario, method.label, method.family, rows, level)


def compared(scenario: str, *, ours: float, rival: float, level: float = 0.99) -> dict[str, Outcome]:
    found = {f"{scenario}|ours": outcome(scenario, Method("kvis"), level, ours, reversals=1)}
    tuned = outcome(scenario, IN_FLIGHT_RIVALS[0], level, rival, level, reversals=4)
    found[f"{scenario}|as-ours|in-flight"] = tuned
    found[f"{scenario}|level|in-flight|0.99"] = tuned
    return found


def test_mix_shift_is_compared_with_the_cheapest_rival_of_our_attainment() -> None:
    found = figures(compared("mix-shift", ours=7.0, rival=10.0), ["mix-shift"])
    assert found.values["mix_shift_cost_vs_best_inflight_pct"] == pytest.approx(-30.0)
    assert found.values["reversals_ratio"] == pytest.approx(0.25)


def swept(scenario: str, level: str, *, ours: float, rival: float, reached: float, theirs: float = 1.0):
    sweep = outcome(scenario, Method("kvis").at(rho=0.9), reached, ours, level=float(level))
    tuned = outcome(scenario, IN_FLIGHT_RIVALS[0], theirs, rival, level=float(level))
    return {f"{scenario}|level|kvis|{level}": sweep, f"{scenario}|level|in-flight|{level}": tuned}


def test_the_worst_fixed_mix_counts() -> None:
    outcomes = swept("ramp", "0.99", ours=9.0, rival=10.0, reached=0.99)
    outcomes |= swept("azure-conv", "0.99", ours=11.0, rival=10.0, reached=0.99)
    found = figures(outcomes, ["ramp", "azure-conv"])
    assert found.values["fixed_mix_cost_vs_best_inflight_pct_worst"] == pytest.approx(10.0)
    assert found.notes["fixed_mix_cost_vs_best_inflight_pct_worst"].startswith("azure-conv")


def test_costs_are_compared_by_the_median_over_the_seeds() -> None:
    ours = outcome("ramp", Method("kvis"), 0.99, 10.0)
    dear = replace(ours, rows=(replace(ours.rows[0], replica_hours=40.0), *ours.rows[1:]))
    rival = outcome("ramp", IN_FLIGHT_RIVALS[0], 0.99, 10.0, level=0.99)
    found = figures({"ramp|ours": dear, "ramp|as-ours|in-flight": rival}, ["ramp"]).values
    assert found["fixed_mix_cost_at_our_attainment_pct_worst"] == 0.0


def test_at_a_level_both_are_tuned_and_at_our_attainment_ours_stands_at_its_defaults() -> None:
    outcomes = compared("ramp", ours=9.0, rival=10.0)
    outcomes |= swept("ramp", "0.99", ours=12.0, rival=10.0, reached=0.991)
    found = figures(outcomes, ["ramp"]).values
    assert found["fixed_mix_cost_vs_best_inflight_pct_worst"] == pytest.approx(20.0)
    assert found["fixed_mix_cost_at_our_attainment_pct_worst"] == pytest.approx(-10.0)


def test_a_level_that_nobody_reaches_gives_way_to_the_next() -> None:
    missed = swept("ramp", "0.99", ours=12.0, rival=10.0, reached=0.98, theirs=0.98)
    outcomes = missed | swept("ramp", "0.95", ours=8.0, rival=10.0, reached=0.96)
    outcomes["ramp|ours"] = outcome("ramp", Method("kvis"), 0.96, 8.0)
    (line,) = lines(outcomes, ["ramp"])
    assert cells(line)[4] == "-20.0 % [-20.0, -20.0] at 95%"


def test_a_level_that_only_the_rival_reaches_stands_and_says_so() -> None:
    missed = swept("ramp", "0.99", ours=12.0, rival=10.0, reached=0.98)
    outcomes = missed | swept("ramp", "0.95", ours=8.0, rival=10.0, reached=0.96)
    outcomes["ramp|ours"] = outcome("ramp", Method("kvis"), 0.96, 8.0)
    found = figures(outcomes, ["ramp"])
    assert found.values["fixed_mix_cost_vs_best_inflight_pct_worst"] == pytest.approx(20.0)
    assert "not reached by ours" in found.notes["fixed_mix_cost_vs_best_inflight_pct_worst"]
    (line,) = lines(outcomes, ["ramp"])
    assert cells(line)[4].endswith("not reached by ours")


def test_a_rival_that_does_not_reach_our_attainment_is_named_as_such() -> None:
    outcomes = {
        "mix-shift|ours": outcome("mix-shift", Method("kvis"), 0.99, 7.0),
        "mix-shift|as-ours|in-flight": outcome("mix-shift", IN_FLIGHT_RIVALS[0], 0.9, 5.0, level=0.99),
    }
    found = figures(outcomes, ["mix-shift"])
    assert found.values["mix_shift_cost_vs_best_inflight_pct"] == pytest.approx(40.0)
    assert "no tuned in-flight setting" in found.notes["mix_shift_cost_vs_best_inflight_pct"]


def test_winning_needs_more_than_every_default_rival() -> None:
    outcomes = {"ramp|ours": outcome("ramp", Method("kvis"), 0.95, 1.0)}
    for method in DEFAULT_RIVALS:
        outcomes[f"ramp|default|{method.label}"] = outcome("ramp", method, 0.90, 1.0)
    assert won_against_defaults(outcomes, "ramp") is True
    outcomes["ramp|default|wva-v1"] = outcome("ramp", Method("wva-v1"), 0.95, 1.0)
    assert won_against_defaults(outcomes, "ramp") is False


def test_a_missing_rival_leaves_the_verdict_open() -> None:
    assert won_against_defaults({"ramp|ours": outcome("ramp", Method("kvis"), 0.95, 1.0)}, "ramp") is None


def a_noise_day(*wanted: tuple[float, int], seed: int = 3) -> Row:
    """`wanted`: hour and replicas of each decision."""
    timeline = {"desired": [[3600.0 * hour, replicas, "Consolidate"] for hour, replicas in wanted]}
    return Row("noise-24h/4", "kvis", "kvis", seed, 100, 0.99, 1.0, actions=len(wanted) - 1, extra=timeline)


def test_held_out_days_of_noise_are_counted_apart_and_only_until_their_load_ends() -> None:
    calm, moved = a_noise_day((0, 6)), a_noise_day((0, 6), (3, 5), (5, 6))
    drained, settled = a_noise_day((0, 6), (24.1, 5)), a_noise_day((0, 6), (0.9, 5))
    found = figures(
        {
            "noise-24h/4|ours": Outcome("noise-24h/4", "kvis", "kvis", (calm,)),
            "noise-24h/4|held-out": Outcome("noise-24h/4", "kvis", "kvis", (calm, moved, drained, settled)),
        },
        [],
    )
    assert found.values["noise_actions_24h"] == 0.0
    assert found.values["noise_held_out_days_with_actions"] == 2.0
    assert found.values["noise_held_out_days_with_actions_once_settled"] == 1.0
    assert found.notes["noise_held_out_days_with_actions"] == "of 4 days, at most 2 actions"


def test_what_was_not_simulated_is_none_with_a_reason() -> None:
    found = figures({}, ["ramp"])
    assert set(found.values.values()) == {None}
    assert all(found.notes[name] for name in found.values if name != "scenarios_won_against_defaults")


def test_a_lost_comparison_stands_in_the_table() -> None:
    (line,) = lines(compared("ramp", ours=11.0, rival=10.0), ["ramp"])
    assert cells(line)[3].startswith("+10.0 %")


def test_a_lost_comparison_is_marked_in_its_own_column_of_the_report() -> None:
    cheaper, dearer = compared("ramp", ours=9.0, rival=10.0), compared("ramp", ours=11.0, rival=10.0)
    lost_at_99 = swept("ramp", "0.99", ours=12.0, rival=10.0, reached=0.99)
    won_at_99 = swept("ramp", "0.99", ours=9.0, rival=10.0, reached=0.99)
    for outcomes, text in ((dearer | won_at_99, "+10.0 %"), (cheaper | lost_at_99, "+20.0 %")):
        (line,) = lines(outcomes, ["ramp"])
        row = report._cells(line)
        assert row.count("class=lost") == 1
        assert f"<td class=lost>{text}" in row


def test_cost_at_a_level_says_who_does_not_reach_it() -> None:
    outcomes = {
        "ramp|level|kvis|0.99": outcome("ramp", Method("kvis"), 0.995, 7.0, level=0.99),
        "ramp|level|wva-v1|0.99": outcome("ramp", Method("wva-v1"), 0.4, 9.0, level=0.99),
    }
    (table,) = (table for table in tables(outcomes, ["ramp"]) if table.title.startswith("Cost at 99"))
    assert table.header == ("Scenario", "kvis", "wva-v1")
    assert table.rows == (("ramp", "7.0", "(40.0%)"),)


def test_ablations_are_compared_on_the_seeds_of_both() -> None:
    outcomes = {
        "ramp|ours": outcome("ramp", Method("kvis"), 0.99, 10.0),
        "ramp|ablation|kvis-no-fit": outcome("ramp", Method("kvis-no-fit"), 0.98, 12.0),
    }
    (table,) = (table for table in tables(outcomes, ["ramp"]) if table.title == "Ablations")
    assert table.rows == (("kvis-no-fit", "-1.00 [-1.00]", "+20.0 % [+20.0 %]", "1"),)

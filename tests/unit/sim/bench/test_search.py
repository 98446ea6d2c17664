"""The search for a rival's cheapest setting, driven by hand-made rows instead of simulations."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from kvis_sim.bench.methods import Method
from kvis_sim.bench.rows import Job, Row
from kvis_sim.bench.schedule import Question
from kvis_sim.bench.search import Seeds, Sweep, at_setting, cheapest

T = TypeVar("T")
SWEEP = Sweep(Method("hpa-inflight"), "target", (4.0, 8.0, 16.0, 32.0, 64.0))
SEEDS = Seeds(tuning=(0, 1), comparing=(0, 1, 2))


def a_row(job: Job, attainment: float, cost: float = 1.0) -> Row:
    return Row(job.scenario, job.method.family, job.method.label, job.seed, 100, attainment, cost)


def answer(question: Question[T], row: Callable[[Job], Row]) -> T:
    try:
        jobs = next(question)
        while True:
            jobs = question.send({job: row(job) for job in jobs})
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def falling(job: Job) -> Row:
    target = dict(job.method.params)["target"]
    return a_row(job, 1.0 - target / 200.0, cost=64.0 / target)


def test_finds_the_cheapest_setting_that_reaches_the_level() -> None:
    outcome = answer(cheapest("ramp", (SWEEP,), level=0.90, level_name="0.9", seeds=SEEDS), falling)
    assert (outcome.method, outcome.reached) == ("hpa-inflight(target=16)", True)
    assert len(outcome.rows) == 3


def test_says_so_when_nothing_reaches_the_level_and_takes_the_best() -> None:
    outcome = answer(cheapest("ramp", (SWEEP,), level=0.999, level_name="0.999", seeds=SEEDS), falling)
    assert (outcome.method, outcome.reached) == ("hpa-inflight(target=4)", False)


def test_steps_back_when_the_other_seeds_miss_the_level() -> None:
    def worse_on_the_third_seed(job: Job) -> Row:
        return falling(job) if job.seed < 2 else a_row(job, falling(job).attainment - 0.1)

    outcome = answer(
        cheapest("ramp", (SWEEP,), level=0.90, level_name="0.9", seeds=SEEDS), worse_on_the_third_seed
    )
    assert outcome.method == "hpa-inflight(target=8)"


def test_steps_on_when_the_other_seeds_are_easier_than_those_it_was_tuned_on() -> None:
    def better_on_the_third_seed(job: Job) -> Row:
        row = falling(job)
        return row if job.seed < 2 else a_row(job, min(1.0, row.attainment + 0.2), row.replica_hours)

    outcome = answer(
        cheapest("ramp", (SWEEP,), level=0.88, level_name="0.88", seeds=SEEDS), better_on_the_third_seed
    )
    assert (outcome.method, outcome.reached) == ("hpa-inflight(target=32)", True)


@pytest.mark.parametrize(("more", "taken"), [(1.04, "slow"), (1.06, "quick")])
def test_edges_that_cost_the_same_on_the_tuning_seeds_are_all_confirmed(more: float, taken: str) -> None:
    """`slow` costs `more` than `quick` there, and half of it on the third seed."""
    sweeps = [Sweep(Method(family), "target", SWEEP.values) for family in ("quick", "slow")]

    def cheaper_on_the_third_seed(job: Job) -> Row:
        row = falling(job)
        factor = 1.0 if job.method.family == "quick" else more if job.seed < 2 else 0.5
        return a_row(job, row.attainment, factor * row.replica_hours)

    outcome = answer(
        cheapest("ramp", sweeps, level=0.90, level_name="0.9", seeds=SEEDS), cheaper_on_the_third_seed
    )
    assert (outcome.family, outcome.reached) == (taken, True)


def test_a_tied_edge_that_falls_short_elsewhere_does_not_undo_one_that_does_not() -> None:
    sweeps = [Sweep(Method(family), "target", SWEEP.values) for family in ("quick", "slow")]

    def short_on_the_third_seed(job: Job) -> Row:
        row = falling(job)
        return row if job.method.family == "quick" or job.seed < 2 else a_row(job, 0.1, row.replica_hours)

    outcome = answer(
        cheapest("ramp", sweeps, level=0.90, level_name="0.9", seeds=SEEDS), short_on_the_third_seed
    )
    assert (outcome.method, outcome.reached) == ("quick(target=16)", True)


def test_a_step_on_that_costs_more_is_not_taken() -> None:
    """Cost falls along an axis only apart from noise."""

    def dearer_past_the_edge(job: Job) -> Row:
        row = falling(job)
        past = dict(job.method.params)["target"] > 16.0
        easy = job.seed == 2 and past
        return a_row(job, row.attainment + (0.2 if easy else 0.0), 9.0 if past else row.replica_hours)

    outcome = answer(
        cheapest("ramp", (SWEEP,), level=0.88, level_name="0.88", seeds=SEEDS), dearer_past_the_edge
    )
    assert (outcome.method, outcome.reached) == ("hpa-inflight(target=16)", True)


def test_a_rule_that_falls_short_on_all_seeds_gives_way_to_the_next_cheapest() -> None:
    """Its own next step back may cost more than what another rule already reached."""

    def keda_only_seems_cheaper(job: Job) -> Row:
        row = falling(job)
        if row.family == "hpa-inflight":
            return row
        short = 0.1 if job.seed == 2 else 0.0
        return a_row(job, row.attainment - short, 0.9 * row.replica_hours)

    sweeps = (SWEEP, Sweep(Method("keda-inflight"), "target", SWEEP.values))
    outcome = answer(
        cheapest("ramp", sweeps, level=0.90, level_name="0.9", seeds=SEEDS), keda_only_seems_cheaper
    )
    assert (outcome.method, outcome.reached) == ("hpa-inflight(target=16)", True)


def test_the_search_on_all_seeds_ends_with_the_best_that_it_looked_at() -> None:
    def far_worse_on_the_third_seed(job: Job) -> Row:
        return falling(job) if job.seed < 2 else a_row(job, 0.1)

    outcome = answer(
        cheapest("ramp", (SWEEP,), level=0.90, level_name="0.9", seeds=SEEDS), far_worse_on_the_third_seed
    )
    assert (outcome.method, outcome.reached) == ("hpa-inflight(target=4)", False)


def test_one_setting_is_run_on_every_seed() -> None:
    outcome = answer(at_setting("ramp", Method("kvis"), (3, 4)), lambda job: a_row(job, 0.95))
    assert [row.seed for row in outcome.rows] == [3, 4]
    assert outcome.reached


def test_the_cheapest_of_several_rules_is_chosen_on_the_tuning_seeds() -> None:
    def keda_is_cheaper(job: Job) -> Row:
        row = falling(job)
        return a_row(job, row.attainment, row.replica_hours / (2.0 if row.family == "keda-inflight" else 1.0))

    sweeps = (SWEEP, Sweep(Method("keda-inflight"), "target", SWEEP.values))
    outcome = answer(cheapest("ramp", sweeps, level=0.90, level_name="0.9", seeds=SEEDS), keda_is_cheaper)
    assert outcome.family == "keda-inflight"
    assert len(outcome.tried) == 4

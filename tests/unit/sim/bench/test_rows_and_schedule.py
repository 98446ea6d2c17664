"""Rows are kept, shared and continued; questions are answered in order and time is respected."""

import time
from collections.abc import Iterator
from pathlib import Path

from kvis_sim.bench.methods import Method
from kvis_sim.bench.rows import Fingerprints, Job, Row, RowStore
from kvis_sim.bench.schedule import Question, Scheduler
from kvis_sim.bench.search import Outcome, at_setting

PRINTS = Fingerprints("sim", "ours", "rivals")


def a_row(job: Job) -> Row:
    return Row(job.scenario, job.method.family, job.method.label, job.seed, 10, 0.9, 1.0)


def count_runs(job: Job) -> Row:
    return a_row(job)


def test_a_kept_row_is_read_back(tmp_path: Path) -> None:
    store, job = RowStore(tmp_path, PRINTS), Job("ramp", Method("kvis"), 0)
    assert store.load(job) is None
    store.save(job, a_row(job))
    assert store.load(job) == a_row(job)


def test_a_row_of_other_sources_counts_only_when_asked_for(tmp_path: Path) -> None:
    job = Job("ramp", Method("kvis"), 0)
    RowStore(tmp_path, PRINTS).save(job, a_row(job))
    changed = Fingerprints("sim", "changed", "rivals")
    assert RowStore(tmp_path, changed).load(job) is None
    assert RowStore(tmp_path, changed, any_version=True).load(job) == a_row(job)


def test_changing_our_code_leaves_the_rivals_rows(tmp_path: Path) -> None:
    job = Job("ramp", Method("static"), 0)
    RowStore(tmp_path, PRINTS).save(job, a_row(job))
    assert RowStore(tmp_path, Fingerprints("sim", "changed", "rivals")).load(job) is not None


def test_jobs_shared_by_questions_run_once_and_rows_are_reused(tmp_path: Path) -> None:
    def questions() -> dict[str, Iterator[object]]:
        return {name: at_setting("ramp", Method("static"), (0, 1)) for name in ("a", "b")}  # type: ignore[misc]

    store = RowStore(tmp_path, PRINTS)
    first = Scheduler[Outcome](count_runs, store, workers=1).ask(questions())  # type: ignore[arg-type]
    again = Scheduler[Outcome](count_runs, store, workers=1).ask(questions())  # type: ignore[arg-type]
    assert (first.simulated, again.simulated) == (2, 0)
    assert set(again.values) == {"a", "b"}


def test_nothing_new_is_started_after_the_deadline(tmp_path: Path) -> None:
    scheduler = Scheduler[Outcome](
        count_runs, RowStore(tmp_path, PRINTS), workers=1, deadline=time.monotonic() - 1.0
    )
    answers = scheduler.ask({"late": at_setting("ramp", Method("static"), (0,))})
    assert (answers.simulated, answers.unanswered) == (0, ["late"])


def test_a_job_wanted_late_by_one_and_early_by_another_question_runs_early(tmp_path: Path) -> None:
    order: list[int] = []
    store = RowStore(tmp_path, PRINTS)

    def urgent() -> Question[Outcome]:
        yield [Job("ramp", Method("static"), 0)]
        return (yield from at_setting("ramp", Method("static"), (9,)))

    background = {f"b{seed}": at_setting("ramp", Method("static"), (seed,)) for seed in range(1, 10)}
    scheduler = Scheduler[Outcome](
        count_runs, store, workers=1, progress=lambda done, left, name: order.append(left)
    )
    answers = scheduler.ask({"urgent": urgent(), **background})
    names = list(answers.values)
    assert names.index("urgent") < names.index("b1")
    assert answers.simulated == 10

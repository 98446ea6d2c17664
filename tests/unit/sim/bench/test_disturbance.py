"""What counts as caused by a fault: levels with it against levels without it."""

import pytest

from kvis_sim.bench.disturbance import Disturbance, disturbance
from kvis_sim.bench.methods import OURS
from kvis_sim.bench.rows import Row
from kvis_sim.bench.search import Outcome

START = 2400.0  # of the fault, which lasts 300 s


def run(scenario: str, *levels: tuple[float, int]) -> Outcome:
    timeline = {"desired": [[0.0, 4, "x"], *([at, replicas, "x"] for at, replicas in levels)]}
    return Outcome(
        scenario, "kvis", "kvis", (Row(scenario, "kvis", OURS.label, 0, 1, 1.0, 1.0, extra=timeline),)
    )


@pytest.mark.parametrize(
    ("disturbed", "expected"),
    [
        ([], Disturbance(removed=0, added=0, recovery_ticks=0)),
        ([(START + 60, 2)], Disturbance(removed=2, added=0, recovery_ticks=40)),
        ([(START + 60, 5), (START + 315, 4)], Disturbance(removed=0, added=1, recovery_ticks=0)),
        ([(START + 60, 5), (START + 330, 4)], Disturbance(removed=0, added=1, recovery_ticks=1)),
        ([(START - 900, 3)], Disturbance(removed=0, added=0, recovery_ticks=40)),
    ],
    ids=["nothing", "removed", "added and back", "back one tick late", "removed long before"],
)
def test_effects(disturbed: list[tuple[float, int]], expected: Disturbance) -> None:
    outcomes = {"fault/none|ours": run("fault/none"), "fault/nan|ours": run("fault/nan", *disturbed)}
    assert disturbance(outcomes, "fault/nan") == expected


def test_growing_later_than_without_the_fault_removes_nothing() -> None:
    outcomes = {
        "fault/none|ours": run("fault/none", (START + 30, 6)),
        "fault/nan|ours": run("fault/nan", (START + 330, 6)),
    }
    found = disturbance(outcomes, "fault/nan")
    assert (found.removed, found.added) == (0, 0)

"""What a fake pod shows at an age."""

from __future__ import annotations

import pytest

from lab.fake_runtime import Load, exposition
from lab.fake_status import Behaviour, Phase, phase_of, pod_status

POD = {
    "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"containers": [{"name": "runtime", "image": "x"}]},
}


@pytest.mark.parametrize(
    ("behaviour", "age", "phase"),
    [
        (Behaviour(ready_after=1.0), 0.5, Phase.STARTING),
        (Behaviour(ready_after=1.0), 1.0, Phase.READY),
        (Behaviour(ready_after=None), 1e6, Phase.STARTING),
        (Behaviour(ready_after=0.0, dies_after=5.0), 4.9, Phase.READY),
        (Behaviour(ready_after=0.0, dies_after=5.0), 5.0, Phase.STARTING),
        (Behaviour(ready_after=0.0, crash_every=2.0), 1.9, Phase.READY),
        (Behaviour(ready_after=0.0, crash_every=2.0), 2.5, Phase.CRASHED),
        (Behaviour(ready_after=0.0, crash_every=2.0), 3.1, Phase.READY),
        (Behaviour(image_missing=True), 9.0, Phase.PULLING),
    ],
)
def test_the_phase_follows_the_behaviour(behaviour: Behaviour, age: float, phase: Phase) -> None:
    assert phase_of(behaviour, age, ending=False) is phase


def test_an_ending_pod_is_not_ready() -> None:
    status = pod_status(
        POD, phase_of(Behaviour(), 9.0, ending=True), address="127.50.0.2", restarts=0, now="t"
    )
    assert status["containerStatuses"][0]["ready"] is False


def test_a_crash_loop_counts_its_restarts() -> None:
    assert Behaviour(crash_every=2.0).restarts(6.1) == 2


def test_the_exposition_is_what_the_operator_parses() -> None:
    signals = pytest.importorskip("kvis_operator.signals.exposition")
    sample = signals.parse(exposition(Load(running=3, waiting=2, cap=8), draining=False), at=0.0)
    assert (sample.running, sample.waiting, sample.max_num_active_seqs, sample.faults) == (
        3,
        2,
        8,
        frozenset(),
    )

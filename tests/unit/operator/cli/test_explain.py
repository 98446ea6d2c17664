"""`kvis explain` says what status holds, and copes with a service that has none yet."""

from __future__ import annotations

from kvis_operator.cli.explain import lines
from scenes import a_body


def test_a_service_without_status_has_no_decision_yet() -> None:
    assert lines(a_body())[-1] == "No decision yet"


def test_decisions_are_told_with_their_numbers() -> None:
    decision = {
        "at": "2026-01-01T00:00:00Z",
        "knob": "replicas",
        "from": "1",
        "to": "2",
        "reason": "Capacity",
        "numbers": {"need_up": 1.6},
        "outcome": "Applied",
    }
    text = lines(a_body(status={"decisions": [decision], "readyReplicas": 1}, replicas=2))
    assert text[0] == "team/demo: 1 of 2 replicas serve"
    assert "replicas 1 -> 2 Capacity (Applied) need_up=1.6" in text[-1]

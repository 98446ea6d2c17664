"""Alive: watches are answered and services looked at; an outage of the API server is no reason to restart."""

from __future__ import annotations

from kvis_operator.serve.health import Signs, what_is_dead, what_is_missing


def signs(*, watch: float = 10, queue: float = 0, answer: float | None = 1, synced: bool = True) -> Signs:
    return Signs(
        watch_ages=lambda: {"/api/v1/pods": watch},
        queue_oldest_seconds=lambda: queue,
        api_answer_age=lambda: answer,
        is_synced=lambda: synced,
    )


def test_answered_watches_and_a_moving_queue_are_alive() -> None:
    assert what_is_dead(signs()) is None


def test_a_silent_watch_is_named() -> None:
    assert "/api/v1/pods" in (what_is_dead(signs(watch=91)) or "")


def test_a_stuck_service_is_told() -> None:
    assert "200 s" in (what_is_dead(signs(queue=200)) or "")


def test_silent_watches_while_the_api_server_is_down_are_no_reason_to_restart() -> None:
    assert what_is_dead(signs(watch=600, answer=600)) is None
    assert what_is_dead(signs(watch=600, answer=None)) is None


def test_not_ready_before_the_first_listing() -> None:
    assert what_is_missing(signs(synced=False)) is not None
    assert what_is_missing(signs()) is None

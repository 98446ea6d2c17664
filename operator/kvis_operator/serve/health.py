"""Is the operator alive and ready? Judged by what it must keep doing, not by whether a socket answers.

Alive: every watch was answered within 90 s and no service waits longer than the queue's bound. While the
API server itself does not answer, stale watches are no reason to restart: a restart would not help. Ready:
the first listing is done. Followers are as alive and as ready as the leader.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

WATCH_SECONDS: Final = 90.0
QUEUE_SECONDS: Final = 180.0
ANSWER_SECONDS: Final = 30.0
"""The API server counts as answering for this long after its last answer to a call of ours."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What is looked at; ages in seconds, None: never."""

    watch_ages: Callable[[], Mapping[str, float]]
    queue_oldest_seconds: Callable[[], float]
    api_answer_age: Callable[[], float | None]
    is_synced: Callable[[], bool]


def what_is_dead(signs: Signs) -> str | None:
    """Why the process should be restarted; None when it should not."""
    oldest = signs.queue_oldest_seconds()
    if oldest > QUEUE_SECONDS:
        return f"a service has been waiting for {oldest:.0f} s"
    age = signs.api_answer_age()
    if age is None or age > ANSWER_SECONDS:
        return None
    stale = sorted(path for path, seconds in signs.watch_ages().items() if seconds > WATCH_SECONDS)
    return f"no answer to the watch of {', '.join(stale)} for over {WATCH_SECONDS:.0f} s" if stale else None


def what_is_missing(signs: Signs) -> str | None:
    """Why the process is not ready; None when it is."""
    return None if signs.is_synced() else "the first listing of the cluster is not done"

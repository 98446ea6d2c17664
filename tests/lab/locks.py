"""Locks between processes: two runs of the lab at once wait for each other instead of doing a thing twice."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .progress import say


@contextmanager
def exclusive(lock: Path, *, what: str) -> Iterator[None]:
    """Hold the lock, waiting for another process where one has it; the wait is said."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that is at it: {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def exclusive_if_free(lock: Path) -> Iterator[bool]:
    """Hold the lock if nobody has it; gives whether it is held."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True

"""What the lab says while it works: one line when a step begins that may take long, one when it ends, with
seconds.

A failure is a `StepError`: it names the step, the log file and the likely cause, which is what a person
needs to go on. Lines from steps that run at the same time may follow each other in any order, but never mix
within a line.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HEARTBEAT_SECONDS: Final = 30.0
TAIL_LINES: Final = 12
_LOCK = threading.Lock()


class LabError(Exception):
    """The lab cannot do what was asked; the message says what to change."""


class StepError(LabError):
    """A step of the lab failed: which, why, and where its log is."""

    def __init__(self, step: str, cause: str, log: Path | None = None) -> None:
        self.step, self.cause, self.log = step, cause, log
        lines = [f"step '{step}' failed: {cause}"]
        if log is not None:
            lines.append(f"log: {log}")
            lines += [f"  | {line}" for line in tail(log)]
        super().__init__("\n".join(lines))


def tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """The last lines of a log, none when it does not exist."""
    try:
        return log.read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []


def say(text: str) -> None:
    """Print one whole line at once, also from threads."""
    with _LOCK:
        sys.stderr.write(f"lab: {text}\n")
        sys.stderr.flush()


@contextmanager
def step(name: str, *, long: bool = False) -> Iterator[None]:
    """Time a step. `long` also prints a line at its start and one every half minute while it runs."""
    started = time.monotonic()
    done = threading.Event()
    if long:
        say(f"{name} ...")
        threading.Thread(target=_heartbeat, args=(name, started, done), daemon=True).start()
    try:
        yield
    except BaseException:
        say(f"{name}: failed after {time.monotonic() - started:.1f} s")
        raise
    finally:
        done.set()
    say(f"{name}: {time.monotonic() - started:.1f} s")


def _heartbeat(name: str, started: float, done: threading.Event) -> None:
    while not done.wait(HEARTBEAT_SECONDS):
        say(f"{name}: still at it after {time.monotonic() - started:.0f} s")

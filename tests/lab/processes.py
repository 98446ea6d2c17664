"""The lab's long-running processes: each has a log file and a record with its pid, start time and command
line.

A pid alone could belong to somebody else after a restart of the machine, so a process counts as ours only
while its start time is the recorded one. Processes live in sessions of their own and outlive the program
that started them.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from .layout import Layout
from .progress import StepError

POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a started process. `started` is in clock ticks since boot, as the kernel counts."""

    pid: int
    started: int
    argv: list[str]


def start(layout: Layout, name: str, argv: Sequence[object], *, env: dict[str, str] | None = None) -> None:
    """Start a process with its own session and log, unless it runs already."""
    if is_running(layout, name):
        return
    layout.logs.mkdir(parents=True, exist_ok=True)
    layout.processes.mkdir(parents=True, exist_ok=True)
    command = [str(word) for word in argv]
    pid = os.posix_spawn(
        command[0],
        command,
        {**os.environ, **(env or {})},
        file_actions=_to_log(log_of(layout, name)),
        setsid=True,
    )
    record = Record(pid=pid, started=_start_ticks(pid) or 0, argv=command)
    _record_file(layout, name).write_text(json.dumps(asdict(record)))


def restart(layout: Layout, name: str) -> None:
    """Start a stopped process again with the command line that it had."""
    record = _read(layout, name)
    if record is None:
        raise StepError(f"restart {name}", f"{name} has never run in this lab; run `make lab`")
    start(layout, name, record.argv)


def stop(layout: Layout, name: str, *, grace_seconds: float = 15.0) -> None:
    """End a process: politely, then after the grace by force. No process, no error."""
    record = _read(layout, name)
    if record is None or not _is_ours(record):
        return
    _signal(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while _is_ours(record):
        if time.monotonic() > deadline:
            _signal(record.pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def kill(layout: Layout, name: str) -> None:
    """End a process at once, as a crash would."""
    record = _read(layout, name)
    while record is not None and _is_ours(record):
        _signal(record.pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def names(layout: Layout) -> list[str]:
    """Every process that this lab has a record of, running or not."""
    return sorted(path.stem for path in layout.processes.glob("*.json"))


def is_running(layout: Layout, name: str) -> bool:
    """Whether the recorded process is alive."""
    record = _read(layout, name)
    return record is not None and _is_ours(record)


def pid_of(layout: Layout, name: str) -> int | None:
    """The pid of a running process."""
    record = _read(layout, name)
    return record.pid if record is not None and _is_ours(record) else None


def log_of(layout: Layout, name: str) -> Path:
    """The log file of a process."""
    return layout.logs / f"{name}.log"


def wait_ready(layout: Layout, name: str, is_ready: Callable[[], bool], *, timeout_seconds: float) -> None:
    """Wait until the process answers; a process that died or stays silent fails the step with its log."""
    deadline = time.monotonic() + timeout_seconds
    while not is_ready():
        if not is_running(layout, name):
            raise StepError(f"start {name}", f"{name} ended by itself", log_of(layout, name))
        if time.monotonic() > deadline:
            cause = f"{name} was not ready within {timeout_seconds:.0f} s"
            raise StepError(f"start {name}", cause, log_of(layout, name))
        time.sleep(POLL_SECONDS)


def _to_log(log: Path) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]


def _record_file(layout: Layout, name: str) -> Path:
    return layout.processes / f"{name}.json"


def _read(layout: Layout, name: str) -> Record | None:
    try:
        return Record(**json.loads(_record_file(layout, name).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _is_ours(record: Record) -> bool:
    _reap(record.pid)
    return record.started != 0 and _start_ticks(record.pid) == record.started


def _reap(pid: int) -> None:
    """Collect the exit of a child of ours; a process that somebody else started is theirs to collect."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _start_ticks(pid: int) -> int | None:
    """Field 22 of proc(5)'s stat; None for a process that is gone or only waits to be collected."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return

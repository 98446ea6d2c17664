"""Processes are known by pid and start time, end when told to, and leave a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab import processes
from lab.layout import Layout
from lab.progress import StepError


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(state=tmp_path / "state", cache=tmp_path / "cache")


def test_a_started_process_runs_until_it_is_stopped(layout: Layout) -> None:
    processes.start(layout, "sleeper", ["/bin/sleep", "60"])
    assert processes.is_running(layout, "sleeper")
    processes.stop(layout, "sleeper")
    assert not processes.is_running(layout, "sleeper")


def test_starting_twice_keeps_the_first(layout: Layout) -> None:
    processes.start(layout, "sleeper", ["/bin/sleep", "60"])
    first = processes.pid_of(layout, "sleeper")
    processes.start(layout, "sleeper", ["/bin/sleep", "60"])
    assert processes.pid_of(layout, "sleeper") == first
    processes.kill(layout, "sleeper")


def test_a_pid_that_belongs_to_another_process_is_not_ours(layout: Layout) -> None:
    layout.processes.mkdir(parents=True)
    record = {"pid": 1, "started": 1, "argv": ["/bin/true"]}
    (layout.processes / "other.json").write_text(json.dumps(record))
    assert not processes.is_running(layout, "other")


def test_a_process_that_ends_by_itself_fails_the_step_with_its_last_words(layout: Layout) -> None:
    processes.start(layout, "talker", ["/bin/sh", "-c", "echo no such thing; exit 3"])
    with pytest.raises(StepError, match=r"(?s)ended by itself.*no such thing"):
        processes.wait_ready(layout, "talker", lambda: False, timeout_seconds=10)


def test_a_restart_uses_the_same_command_line(layout: Layout) -> None:
    processes.start(layout, "sleeper", ["/bin/sleep", "60"])
    processes.kill(layout, "sleeper")
    processes.restart(layout, "sleeper")
    assert processes.is_running(layout, "sleeper")
    processes.kill(layout, "sleeper")

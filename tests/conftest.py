"""Options and the honest count: what ran, what was skipped and why, per tier, into build/tests/<tier>.json.

A tier that could not run is a failure in CI, so that a green run always means that everything ran.
"""

import json
import os
import pathlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

ROOT = pathlib.Path(__file__).parent.parent

# A property is right or wrong whatever the machine's load; pytest-timeout bounds the time.
settings.register_profile("kvis", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kvis")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files; review the diff")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.config.option.collectonly:
        return
    counts = {kind: len(reporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    skipped = sorted(f"{report.nodeid}: {_reason(report)}" for report in reporter.stats.get("skipped", []))
    _write_tally(session.config.option.markexpr, counts, skipped)
    if skipped:
        reporter.write_line(f"\n{len(skipped)} skipped:")
        for line in skipped:
            reporter.write_line(f"  {line}")
    if skipped and os.environ.get("CI") == "true" and exitstatus == 0:
        reporter.write_line("A skipped test fails CI.")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)


def _write_tally(tier: str, counts: dict[str, int], skipped: list[str]) -> None:
    if not tier:
        return
    folder = ROOT / "build" / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "_" for letter in tier)
    (folder / f"{name}.json").write_text(json.dumps({"tier": tier, "counts": counts, "skipped": skipped}))


@pytest.fixture(autouse=True)
def _no_leaked_environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)

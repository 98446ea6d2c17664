"""Settings: the file, then the flags; whatever cannot work is named before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvis_operator.cli.main import main
from kvis_operator.cli.settings import SettingsError, load


def a_file(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_defaults_are_usable() -> None:
    assert load(None, {}).tick_seconds == 15


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = a_file(tmp_path, "tickSeconds: 20\nport: 9000\n")
    settings = load(path, {"tick_seconds": 5.0, "port": None})
    assert (settings.tick_seconds, settings.port) == (5, 9000)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tickSecond: 5", "tickSecond"),
        ("tickSeconds: 0", "tickSeconds"),
        ("port: 70000", "port"),
        ("leaseSeconds: 10\nrenewSeconds: 12", "leaseSeconds > renewSeconds"),
        ("scrapeSeconds: 20", "scrapeSeconds must be smaller"),
        ("logLevel: loud", "logLevel"),
        ("[1, 2]", "mapping"),
        ("a: [", "YAML"),
    ],
)
def test_what_cannot_work_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load(a_file(tmp_path, text), {})


def test_a_missing_profile_table_ends_the_start_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["operator", "run", f"--profiles={tmp_path}/absent.yaml"]) == 78
    assert "absent.yaml" in capsys.readouterr().err


def test_an_unknown_command_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["frobnicate"])
    assert "operator" in capsys.readouterr().err

from pathlib import Path

import pytest

from kvis_sim.bench.__main__ import FULL_MINUTES, QUICK_MINUTES, main, minutes_to_ask, parser


def test_a_scenario_that_does_not_exist_is_refused_with_those_that_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--only", "nosuch"]) == 2
    assert "azure-conv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "minutes"),
    [
        ([], FULL_MINUTES),
        (["--quick"], QUICK_MINUTES),
        (["--minutes", "0"], 0.0),
        (["--quick", "--minutes", "5"], 5.0),
    ],
)
def test_no_time_at_all_is_a_time_as_well(arguments: list[str], minutes: float) -> None:
    assert minutes_to_ask(parser().parse_args(arguments)) == minutes


def test_a_table_that_was_not_measured_is_not_copied(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    readme = tmp_path / "README.md"
    assert main(["--readme", str(readme), "--out", str(tmp_path)]) == 2
    assert "run the benchmark" in capsys.readouterr().err
    assert not readme.exists()

import pytest

from kvis_sim.bench.__main__ import main


def test_a_scenario_that_does_not_exist_is_refused_with_those_that_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--only", "nosuch"]) == 2
    assert "azure-conv" in capsys.readouterr().err

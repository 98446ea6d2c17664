"""Every end of the process is told on stderr and in the termination log, with an exit status to act on."""

import json

import pytest

from kvis_kv.flags import EXIT_CONFIG
from kvis_runtime.cli.arguments import UsageError
from kvis_runtime.cli.main import main, reported
from kvis_runtime.cli.termination import MAX_BYTES, write_termination


@pytest.fixture
def termination_log(tmp_path):
    path = tmp_path / "termination.log"
    path.touch()
    return path


def raising(error):
    def work():
        raise error

    return work


def test_a_wrong_setting_says_do_not_retry(termination_log, capsys):
    status = reported(raising(UsageError("--block-size: 7 is not one of 8, 16")), termination_log)
    assert status == EXIT_CONFIG
    assert json.loads(termination_log.read_text()) == {
        "reason": "InvalidConfiguration",
        "message": "--block-size: 7 is not one of 8, 16",
    }
    assert "--block-size" in capsys.readouterr().err


def test_a_missing_package_names_the_line_that_installs_it(termination_log, capsys):
    status = reported(raising(ModuleNotFoundError("No module named 'torch'", name="torch")), termination_log)
    assert status == EXIT_CONFIG
    assert "torch is missing: pip install 'kvis[runtime]'" in capsys.readouterr().err


def test_another_failure_may_be_retried(termination_log):
    assert reported(raising(RuntimeError("out of luck")), termination_log) == 1
    assert json.loads(termination_log.read_text()) == {"reason": "RuntimeError", "message": "out of luck"}


def test_a_good_end_writes_nothing(termination_log):
    assert reported(lambda: 0, termination_log) == 0
    assert termination_log.read_text() == ""


def test_outside_a_pod_no_file_is_made(tmp_path):
    write_termination(tmp_path / "missing", "Reason", "message")
    assert not (tmp_path / "missing").exists()


def test_a_long_message_fits_into_what_the_kubelet_keeps(termination_log):
    write_termination(termination_log, "Reason", "\u00e9" * 10_000)
    assert len(termination_log.read_bytes()) <= MAX_BYTES
    assert json.loads(termination_log.read_text())["reason"] == "Reason"


def test_the_command_line_reports_a_wrong_flag(capsys):
    assert main(["serve", "--model=/nonexistent", "--port=x"]) == EXIT_CONFIG
    assert "--port: 'x' is not a whole number" in capsys.readouterr().err


def test_a_command_is_needed(capsys):
    assert main([]) == EXIT_CONFIG
    assert "command" in capsys.readouterr().err

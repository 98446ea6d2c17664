"""A start that cannot work ends with the exit status and the words that the operator acts on; real processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from free_port import a_free_port
from kvis_kv.flags import EXIT_CONFIG
from serving.codec import a_model_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[4]
MODEL = ROOT / "build/models/smollm2-135m"


def served(*flags, model):
    """Run the server until it ends; return its exit status and what it printed."""
    ports = [f"--port={a_free_port()}", f"--admin-port={a_free_port()}"]
    command = [sys.executable, "-m", "kvis_runtime.cli.main", "serve", f"--model={model}", *ports, *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "pod_runtime")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
    return ended.returncode, ended.stderr


def test_a_config_the_model_class_does_not_know_is_not_retried(tmp_path):
    folder = a_model_folder(tmp_path)
    (folder / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    status, printed = served(model=folder)
    assert status == EXIT_CONFIG
    assert "--model: config.json" in printed
    assert "Traceback" not in printed


@pytest.mark.model
def test_a_cache_too_small_for_one_sequence_says_what_would_fit():
    status, printed = served("--max-model-len=8192", "--kv-cache-memory-bytes=10000000", model=MODEL)
    assert status == EXIT_CONFIG
    assert "--kv-cache-memory-bytes: 10000000 cannot hold one sequence of 8192 tokens" in printed
    assert "would fit" in printed


def test_sigterm_before_the_server_listens_ends_the_process(tmp_path):
    command = [sys.executable, "-m", "kvis_runtime.cli.main", "serve", f"--model={a_model_folder(tmp_path)}"]
    starting = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT / "pod_runtime")})
    while not catches_sigterm(starting.pid):
        time.sleep(0.001)
    starting.terminate()
    assert starting.wait(timeout=30) == 0


def catches_sigterm(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def test_a_taken_port_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, printed = served(f"--port={taken.getsockname()[1]}", model=a_model_folder(tmp_path))
    assert status == 1
    assert "--port: cannot listen on 127.0.0.1" in printed

"""Loading torch as the image does: without NumPy."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LOAD = """
from pathlib import Path
from kvis_runtime.cli.serve import load_engine
from kvis_runtime.engine.config import ConfigError, EngineConfig
try:
    load_engine(EngineConfig(Path("/nonexistent")))
except ConfigError as error:
    print(error)
"""


def test_a_missing_numpy_goes_unmentioned(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "numpy.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert "/nonexistent has no config.json" in loaded.stdout
    assert loaded.stderr == ""

"""A cluster that a kubeconfig points at is used as it is and left as it is, by a checkout that has no lab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lab

pytestmark = pytest.mark.cluster

TESTS = Path(__file__).parents[1]
IMAGES = {"KVIS_OPERATOR_IMAGE": "kvis.dev/operator:1", "KVIS_RUNTIME_IMAGE": "kvis.dev/runtime:1"}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def given(cluster: lab.Cluster, tmp_path: Path) -> Path:
    return Path(shutil.copy(cluster.kubeconfig, tmp_path / "given.kubeconfig"))


@pytest.fixture
def run(given: Path, tmp_path: Path) -> Run:
    """`python -m lab` of another checkout, whose user points at the cluster."""

    inherited = {name: value for name, value in os.environ.items() if name not in IMAGES}

    def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "KVIS_KUBECONFIG": str(given),
            "KVIS_LAB_STATE": str(tmp_path / "state"),
            "PYTHONPATH": str(TESTS),
        }
        return subprocess.run(
            [sys.executable, "-m", "lab", *words],
            env={**inherited, **settings, **environment},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    return command


def test_it_is_taken_before_any_other_source(run: Run, given: Path) -> None:
    assert f"export KUBECONFIG={given}" in run("up", "--no-images").stdout
    assert "source: an existing cluster" in run("status").stdout


def test_images_that_its_nodes_can_pull_are_asked_for_by_the_variables_names(run: Run) -> None:
    done = run("up")
    assert done.returncode == 1
    assert all(name in done.stderr for name in IMAGES)


def test_the_named_images_are_what_it_runs(run: Run) -> None:
    assert run("up", **IMAGES).returncode == 0
    assert all(image in run("status").stdout for image in IMAGES.values())


def test_down_leaves_it_alone(run: Run, cluster: lab.Cluster) -> None:
    run("up", "--no-images")
    assert run("down").returncode == 0
    ready = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), "get", "--raw", "/readyz"]
    assert subprocess.run(ready, capture_output=True, text=True, check=True).stdout == "ok"
    assert "no cluster is up" in run("status").stdout

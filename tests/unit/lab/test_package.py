"""The package's door: names on demand, locks between runs, images of an existing cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lab
from lab.locks import exclusive, exclusive_if_free

TESTS = Path(__file__).resolve().parents[2]


def test_preparing_needs_nothing_but_a_bare_python() -> None:
    code = "import sys, lab; lab.prepare; sys.exit(any(m in sys.modules for m in ('cryptography', 'yaml', 'aiohttp')))"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(TESTS)}, check=False)
    assert done.returncode == 0


def test_every_public_name_exists() -> None:
    assert all(getattr(lab, name) for name in lab.__all__)


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'upp'"):
        lab.upp  # noqa: B018


def test_a_held_lock_is_not_free(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock", what="a test"), exclusive_if_free(tmp_path / "lock") as is_free:
        assert not is_free


def test_a_lock_is_free_after_its_holder(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock", what="a test"):
        pass
    with exclusive_if_free(tmp_path / "lock") as is_free:
        assert is_free

"""Versions come from the committed go.mod, and failures are explained."""

from __future__ import annotations

import pytest

from lab.binaries import ALL, build_cause, build_flags, parse_version, version_of
from lab.preflight import parse_go_version
from lab.progress import StepError


def test_every_program_has_a_pinned_version() -> None:
    assert all(version_of(program).startswith("v") for program in ALL)


def test_a_version_is_found_in_a_require_line_and_in_a_block() -> None:
    assert parse_version("module x\n\nrequire a.b/c v1.2.3\n", "a.b/c") == "v1.2.3"
    assert parse_version("require (\n\ta.b/c v1.2.3 // indirect\n)\n", "a.b/c") == "v1.2.3"


def test_a_go_mod_without_the_module_is_an_error() -> None:
    with pytest.raises(StepError, match=r"a\.b/c"):
        parse_version("module x\n", "a.b/c")


def test_programs_know_the_version_that_they_are_linked_with() -> None:
    linker = build_flags("v1.34.4")[-1]
    assert "version.gitVersion=v1.34.4" in linker
    assert "version.gitMinor=34" in linker
    assert "chartutil.k8sVersionMinor=34" in linker


def test_a_full_disk_is_named_as_the_cause() -> None:
    assert "disk is full" in build_cause("go: write x: no space left on device")


@pytest.mark.parametrize(
    ("text", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26)), ("go version go1.24 linux/arm64", (1, 24)), ("", None)],
)
def test_go_says_its_version(text: str, version: tuple[int, int] | None) -> None:
    assert parse_go_version(text) == version

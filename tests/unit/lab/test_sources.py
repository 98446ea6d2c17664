"""The order in which cluster sources are tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.progress import LabError
from lab.sources import Machine, Source, choose, existing_kubeconfig


def a_machine(
    *,
    kubeconfig: Path | None = None,
    kind_lacks: tuple[str, ...] = ("no engine",),
    node_lacks: tuple[str, ...] = (),
    control_plane_lacks: tuple[str, ...] = (),
) -> Machine:
    return Machine(kubeconfig, kind_lacks, node_lacks, control_plane_lacks)


def test_an_existing_cluster_wins_over_everything() -> None:
    choice = choose(a_machine(kubeconfig=Path("/some/kubeconfig"), kind_lacks=()))
    assert choice.source is Source.EXISTING


def test_kind_comes_before_the_lab() -> None:
    assert choose(a_machine(kind_lacks=())).source is Source.KIND


def test_the_lab_comes_before_a_bare_control_plane() -> None:
    assert choose(a_machine()).source is Source.LAB


def test_without_root_there_is_still_a_control_plane() -> None:
    choice = choose(a_machine(node_lacks=("root",)))
    assert choice.source is Source.CONTROL_PLANE
    assert "lab: root" in choice.passed_over


def test_asking_for_no_node_takes_the_control_plane_though_kind_is_there() -> None:
    assert choose(a_machine(kind_lacks=()), node=False).source is Source.CONTROL_PLANE


def test_when_nothing_can_be_had_the_error_lists_every_lack() -> None:
    with pytest.raises(LabError, match=r"(?s)no engine.*no Go.*no root"):
        choose(a_machine(node_lacks=("no root",), control_plane_lacks=("no Go",)))


def test_a_given_kubeconfig_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(LabError, match="no such file"):
        existing_kubeconfig({"KVIS_KUBECONFIG": "/does/not/exist"}, use_current=False)


def test_the_current_cluster_is_used_only_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.touch()
    environment = {"KUBECONFIG": str(path)}
    assert existing_kubeconfig(environment, use_current=False) is None
    assert existing_kubeconfig(environment, use_current=True) == path

"""Where a cluster comes from, tried in this order; the first that the machine can give is taken.

1. An existing cluster: KVIS_KUBECONFIG, or KUBECONFIG when the current cluster is asked for.
2. kind on a running Docker or Podman engine.
3. The lab: a real control plane and a real node on this machine, as root on Debian with Go.
4. Only a control plane, without root: pods need a fake node.

Choosing is pure: `choose` sees facts and returns a choice with what every better source lacked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from . import binaries, images, preflight
from .layout import Layout
from .progress import LabError

ENGINE_TIMEOUT_SECONDS: Final = 10


class Source(Enum):
    """A way to get a cluster; the value is how it is called to people."""

    EXISTING = "an existing cluster"
    KIND = "a kind cluster"
    LAB = "the lab (control plane and node on this machine)"
    CONTROL_PLANE = "a control plane without a node (pods run on a fake node only)"


@dataclass(frozen=True, slots=True)
class Machine:
    """What choosing needs to know. Each list names what that source lacks; empty means it can be had."""

    kubeconfig: Path | None
    kind_lacks: tuple[str, ...]
    node_lacks: tuple[str, ...]
    control_plane_lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The source taken, and for each better one what it lacks."""

    source: Source
    kubeconfig: Path | None
    passed_over: tuple[str, ...]


def choose(machine: Machine, *, node: bool = True) -> Choice:
    """The first source that can be had. `node=False` asks for a control plane and nothing more.

    Raises LabError with every lack when none can be had.
    """
    if machine.kubeconfig is not None:
        return Choice(Source.EXISTING, machine.kubeconfig, ())
    passed_over = ["existing cluster: KVIS_KUBECONFIG is not set"]
    if not node and not machine.control_plane_lacks:
        return Choice(Source.CONTROL_PLANE, None, tuple(passed_over))
    if not machine.kind_lacks:
        return Choice(Source.KIND, None, tuple(passed_over))
    passed_over += [f"kind: {lack}" for lack in machine.kind_lacks]
    lab_lacks = (*machine.control_plane_lacks, *machine.node_lacks)
    if not lab_lacks:
        return Choice(Source.LAB, None, tuple(passed_over))
    passed_over += [f"lab: {lack}" for lack in lab_lacks]
    if not machine.control_plane_lacks:
        return Choice(Source.CONTROL_PLANE, None, tuple(passed_over))
    raise LabError(
        "no cluster can be had on this machine:\n" + "\n".join(f"  - {line}" for line in passed_over)
    )


def look(
    layout: Layout, *, environment: Mapping[str, str] | None = None, use_current: bool = False
) -> Machine:
    """Gather the facts about this machine."""
    environment = os.environ if environment is None else environment
    missing = [each for each in binaries.needed(node=True) if not binaries.is_built(layout, each)]
    return Machine(
        kubeconfig=existing_kubeconfig(environment, use_current=use_current),
        kind_lacks=tuple(kind_lacks()),
        node_lacks=tuple(preflight.node_lacks(layout, images_built=images.were_built(layout))),
        control_plane_lacks=tuple(preflight.control_plane_lacks(layout, builds_needed=bool(missing))),
    )


def existing_kubeconfig(environment: Mapping[str, str], *, use_current: bool) -> Path | None:
    """The kubeconfig that the user points at; a file that does not exist is an error, not another source."""
    given = environment.get("KVIS_KUBECONFIG") or (environment.get("KUBECONFIG") if use_current else None)
    if not given:
        return None
    path = Path(given.split(os.pathsep)[0]).expanduser()
    if not path.is_file():
        raise LabError(f"KVIS_KUBECONFIG={given}: no such file; give an existing kubeconfig or unset it")
    return path.absolute()


def kind_lacks() -> list[str]:
    """What kind lacks: itself, or an engine that runs."""
    lacks = [] if engine() else ["no Docker or Podman engine is running"]
    if shutil.which("kind") is None:
        lacks.append("kind is not on PATH; see https://kind.sigs.k8s.io/docs/user/quick-start")
    return lacks


def engine() -> str | None:
    """The container engine that answers: docker, else podman."""
    for name in ("docker", "podman"):
        if shutil.which(name) and _answers(name):
            return name
    return None


def _answers(name: str) -> bool:
    try:
        done = subprocess.run(
            [name, "info"], capture_output=True, timeout=ENGINE_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0

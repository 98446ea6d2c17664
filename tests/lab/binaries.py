"""Kubernetes, etcd and Helm, built from Go modules that one committed go.mod and go.sum pin.

One module for all of them: what two programs both import is compiled once, so versions are chosen that agree
on their dependencies (etcd's and Helm's are those that were made for this Kubernetes). Binaries are kept in the
cache under their version, so that a second lab starts in seconds and a changed version is built anew. `kubectl`
is built only on a machine that has none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .layout import Layout
from .locks import exclusive
from .progress import StepError, step

GO_MODULE: Final = Path(__file__).resolve().parent / "go"
KUBERNETES: Final = "k8s.io/kubernetes"
VERSION_PACKAGE: Final = "k8s.io/component-base/version"
HELM_VERSION_PACKAGES: Final = ("helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules")


@dataclass(frozen=True, slots=True)
class Program:
    """A binary: its name, the package that makes it, and the module whose version it has."""

    name: str
    package: str
    module: str


def _kubernetes(*names: str) -> tuple[Program, ...]:
    return tuple(Program(name, f"{KUBERNETES}/cmd/{name}", KUBERNETES) for name in names)


ETCD: Final = Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")
CONTROL_PLANE: Final = (ETCD, *_kubernetes("kube-apiserver", "kube-controller-manager", "kube-scheduler"))
NODE: Final = _kubernetes("kubelet", "kube-proxy")
KUBECTL: Final = _kubernetes("kubectl")[0]
HELM: Final = Program("helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3")
ALL: Final = (*CONTROL_PLANE, *NODE, KUBECTL, HELM)


def ensure(layout: Layout, programs: Iterable[Program]) -> None:
    """Build what the cache lacks, in one run of the compiler: it uses every core by itself."""
    wanted = list(programs)
    if all(is_built(layout, program) for program in wanted):
        return
    with exclusive(layout.cache / "binaries.lock", what="Go builds"):
        missing = [program for program in wanted if not is_built(layout, program)]
        if missing:
            names = ", ".join(program.name for program in missing)
            with step(f"build {names} from Go modules", long=True):
                _build(layout, missing)


def is_built(layout: Layout, program: Program) -> bool:
    """Whether the cache has the binary."""
    return _path(layout, program).exists()


def find(layout: Layout, name: str) -> Path:
    """The path of a built binary."""
    return next(_path(layout, program) for program in ALL if program.name == name)


def find_kubectl(layout: Layout) -> Path:
    """The kubectl on PATH, or the one that the lab built."""
    on_path = shutil.which("kubectl")
    return Path(on_path) if on_path else find(layout, "kubectl")


def clients() -> list[Program]:
    """What a person or a test calls: Helm, and kubectl on a machine that has none."""
    return [HELM] if shutil.which("kubectl") else [HELM, KUBECTL]


def needed(*, node: bool) -> list[Program]:
    """The programs of a cluster."""
    return [*CONTROL_PLANE, *(NODE if node else ()), *clients()]


def version_of(program: Program) -> str:
    """The version that go.mod asks for."""
    return parse_version((GO_MODULE / "go.mod").read_text(), program.module)


def parse_version(go_mod: str, module: str) -> str:
    """The required version of a module in the text of a go.mod."""
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise StepError("read go.mod", f"no 'require {module} vX.Y.Z' in it; restore the file from git")
    return found.group(1)


def build_flags(kubernetes_version: str) -> list[str]:
    """No symbols and no debugging data, which saves a tenth of the compiler's time.

    Programs know the version of Kubernetes only from what they are linked with: Kubernetes' own report it, Helm
    takes it for that of a cluster which it is not asked to reach.
    """
    major, minor = kubernetes_version.removeprefix("v").split(".")[:2]
    numbers = {f"{VERSION_PACKAGE}.gitVersion": kubernetes_version}
    numbers |= {f"{VERSION_PACKAGE}.gitMajor": major, f"{VERSION_PACKAGE}.gitMinor": minor}
    for package in HELM_VERSION_PACKAGES:
        numbers |= {f"{package}.k8sVersionMajor": major, f"{package}.k8sVersionMinor": minor}
    stamps = [f"-X {name}={value}" for name, value in numbers.items()]
    return ["-trimpath", "-gcflags=all=-dwarf=false", f"-ldflags=-s -w {' '.join(stamps)}"]


def _path(layout: Layout, program: Program) -> Path:
    return layout.binaries / version_of(program) / program.name


def _build(layout: Layout, programs: Sequence[Program]) -> None:
    """Build into a folder beside the final ones, so that a broken-off build leaves no half binary."""
    fresh = layout.binaries / f"building-{os.getpid()}"
    fresh.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = layout.logs / "build-go.log"
    flags = build_flags(parse_version((GO_MODULE / "go.mod").read_text(), KUBERNETES))
    packages = [program.package for program in programs]
    command = ["go", "build", *flags, "-o", f"{fresh}/", *packages]
    try:
        with log.open("w") as out:
            environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
            done = subprocess.run(
                command, cwd=GO_MODULE, env=environment, stdout=out, stderr=out, check=False
            )
        if done.returncode != 0:
            raise StepError("build Go programs", build_cause(log.read_text(errors="replace")), log)
        for program in programs:
            _path(layout, program).parent.mkdir(parents=True, exist_ok=True)
            (fresh / _file_name(program.package)).replace(_path(layout, program))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _file_name(package: str) -> str:
    """How Go calls the binary of a package: the last part of its path that is no version."""
    parts = package.split("/")
    return parts[-2] if re.fullmatch(r"v\d+", parts[-1]) else parts[-1]


def build_cause(log: str) -> str:
    """The likely cause of a failed build, from its output."""
    causes = {
        "no space left on device": "the disk is full; a build needs 8 GB in the Go cache (`go env GOCACHE`)",
        "dial tcp": "the Go module proxy cannot be reached; check `go env GOPROXY` and the network",
        "toolchain not available": "this Go is too old and may not fetch a newer one; install Go 1.26",
        "signal: killed": "the compiler was killed, most likely for memory; 4 GB free are needed",
        "checksum mismatch": "a module differs from go.sum; check `go env GOPROXY`",
    }
    return next((cause for text, cause in causes.items() if text in log), "the Go build failed")

"""Kubernetes, etcd and Helm, built from Go modules that the committed go.mod and go.sum pin.

Each module folder under `go/` is one build; its binaries are kept in the cache under the version that the
go.mod asks for, so that a second lab starts in seconds and a changed version is built anew. `kubectl` is
built only on a machine that has none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .layout import Layout
from .locks import exclusive
from .progress import StepError, step

GO_MODULES: Final = Path(__file__).resolve().parent / "go"
VERSION_PACKAGE: Final = "k8s.io/component-base/version"
VERSION_STAMPED: Final = "kubernetes"  # the module whose programs report the version they are linked with


@dataclass(frozen=True, slots=True)
class Build:
    """One `go build`: a module folder, what it must contain, and the packages it makes."""

    folder: str
    module: str
    packages: tuple[str, ...]
    output: str | None = None  # the binary's name where the package path does not end in it

    @property
    def names(self) -> tuple[str, ...]:
        """The binaries' names."""
        return (self.output,) if self.output else tuple(path.rsplit("/", 1)[-1] for path in self.packages)


def _kubernetes(*commands: str) -> Build:
    packages = tuple(f"k8s.io/kubernetes/cmd/{command}" for command in commands)
    return Build("kubernetes", "k8s.io/kubernetes", packages)


ETCD: Final = Build("etcd", "go.etcd.io/etcd/server/v3", ("go.etcd.io/etcd/server/v3",), "etcd")
CONTROL_PLANE: Final = _kubernetes("kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE: Final = _kubernetes("kubelet", "kube-proxy")
KUBECTL: Final = _kubernetes("kubectl")
HELM: Final = Build("helm", "helm.sh/helm/v4", ("helm.sh/helm/v4/cmd/helm",))


def ensure(layout: Layout, builds: Sequence[Build]) -> None:
    """Build what the cache lacks, one module after another: each already uses every core."""
    if all(is_built(layout, build) for build in builds):
        return
    with exclusive(layout.cache / "binaries.lock", what="Go builds"):
        _build_missing(layout, builds)


def _build_missing(layout: Layout, builds: Sequence[Build]) -> None:
    for build in builds:
        if not is_built(layout, build):
            with step(f"build {', '.join(build.names)} {version_of(build)} from Go modules", long=True):
                _run_build(layout, build)


def is_built(layout: Layout, build: Build) -> bool:
    """Whether the cache has every binary of a build."""
    return all(_path(layout, build, name).exists() for name in build.names)


def find(layout: Layout, name: str) -> Path:
    """The path of a built binary."""
    for build in (ETCD, CONTROL_PLANE, NODE, KUBECTL, HELM):
        if name in build.names:
            return _path(layout, build, name)
    raise KeyError(name)


def find_kubectl(layout: Layout) -> Path:
    """The kubectl on PATH, or the one that the lab built."""
    on_path = shutil.which("kubectl")
    return Path(on_path) if on_path else find(layout, "kubectl")


def has_kubectl() -> bool:
    """Whether this machine has a kubectl of its own."""
    return shutil.which("kubectl") is not None


def needed(*, node: bool) -> list[Build]:
    """The builds of a cluster, in the order in which it needs them."""
    kubectl = [] if has_kubectl() else [KUBECTL]
    return [ETCD, CONTROL_PLANE, *([NODE] if node else []), *kubectl, HELM]


def version_of(build: Build) -> str:
    """The version that the module's go.mod asks for."""
    text = (GO_MODULES / build.folder / "go.mod").read_text()
    return parse_version(text, build.module)


def parse_version(go_mod: str, module: str) -> str:
    """The required version of a module in the text of a go.mod."""
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise StepError("read go.mod", f"no 'require {module} vX.Y.Z' in it; restore the file from git")
    return found.group(1)


def linker_flags(build: Build, version: str) -> str:
    """Strip symbols; give Kubernetes the version that its programs report."""
    flags = ["-s", "-w"]
    if build.folder == VERSION_STAMPED:
        major, minor = version.removeprefix("v").split(".")[:2]
        numbers = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in numbers.items()]
    return " ".join(flags)


def _path(layout: Layout, build: Build, name: str) -> Path:
    return layout.binaries / f"{build.folder}-{version_of(build)}" / name


def _run_build(layout: Layout, build: Build) -> None:
    """Build into a folder beside the final one, so that a broken-off build leaves no half binary."""
    version = version_of(build)
    target = layout.binaries / f"{build.folder}-{version}"
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    fresh.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = layout.logs / f"build-{build.folder}.log"
    command = ["go", "build", "-trimpath", "-ldflags", linker_flags(build, version)]
    command += ["-o", str(fresh / build.output) if build.output else f"{fresh}/", *build.packages]
    try:
        with log.open("w") as out:
            environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
            folder = GO_MODULES / build.folder
            done = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=out, check=False)
        if done.returncode != 0:
            raise StepError(f"build {build.folder}", build_cause(log.read_text(errors="replace")), log)
        for binary in fresh.iterdir():
            binary.replace(target / binary.name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


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

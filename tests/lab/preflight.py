"""What this machine has and lacks for each kind of cluster. Nothing here changes anything but
`install_packages`.

A lack is one line that a person can act on: what is missing and the command that brings it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from . import layout as names
from .layout import Layout
from .locks import exclusive
from .progress import LabError, StepError, step

GO_MINIMUM: Final = (1, 24)
CONTROL_PLANE_GIB: Final = 10  # Go's module and build caches, and the binaries
NODE_GIB: Final = 40  # the runtime image with torch lies in three stores: built, packed, unpacked
GIB: Final = 1 << 30

PACKAGES: Final[dict[str, str]] = {
    "/usr/bin/containerd": "containerd",
    "/usr/sbin/runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/sbin/iptables": "iptables",
    "/usr/sbin/conntrack": "conntrack",
    "/usr/sbin/ip": "iproute2",
    "/usr/bin/buildah": "buildah",
    "/usr/bin/skopeo": "skopeo",
    "/usr/bin/mmdebstrap": "mmdebstrap",
    "/usr/bin/busybox": "busybox-static",
    "/usr/bin/mount": "mount",
    "/usr/bin/faketime": "faketime",  # of a test that lets a clock jump
}
"""A file that the node or a test needs -> the Debian package that brings it."""

PORTS: Final = (
    names.API_PORT,
    names.ETCD_PORT,
    names.ETCD_PEER_PORT,
    names.CONTROLLER_MANAGER_PORT,
    names.SCHEDULER_PORT,
)


def control_plane_lacks(layout: Layout, *, builds_needed: bool) -> list[str]:
    """What a control plane of plain processes lacks here."""
    lacks = [] if not builds_needed else go_lacks()
    if builds_needed:
        lacks += disk_lacks(layout.cache, CONTROL_PLANE_GIB)
    return lacks


def node_lacks(layout: Layout, *, images_built: bool) -> list[str]:
    """What a real node lacks here, packages aside."""
    lacks: list[str] = []
    if os.geteuid() != 0:
        lacks.append("root: a node mounts and makes networks; run as root, or start Docker and install kind")
    if not is_debian():
        lacks.append(
            "Debian or Ubuntu: the node's packages come from apt; elsewhere start Docker and install kind"
        )
    if not _has_overlay():
        lacks.append("overlayfs: the kernel has none (/proc/filesystems, `modprobe overlay`)")
    return lacks + ([] if images_built else disk_lacks(layout.cache, NODE_GIB))


def _has_overlay() -> bool:
    """Built in, loaded, or a module that can be loaded when the lab starts."""
    if "overlay" in Path("/proc/filesystems").read_text():
        return True
    probe = ["modprobe", "--dry-run", "--quiet", "overlay"]
    return bool(shutil.which("modprobe")) and subprocess.run(probe, check=False).returncode == 0


def is_debian() -> bool:
    """Whether apt rules this machine."""
    return shutil.which("apt-get") is not None


def missing_packages() -> list[str]:
    """Debian packages that the node needs and that are not installed."""
    return [package for file, package in PACKAGES.items() if not Path(file).exists()]


def may_install() -> bool:
    """Whether the lab may install Debian packages itself: asked for, or on a build machine."""
    return os.environ.get("KVIS_LAB_INSTALL") == "1" or os.environ.get("CI", "").lower() in ("1", "true")


def install_missing(layout: Layout) -> None:
    """Install the Debian packages that are missing, or say how, where the lab may not."""
    with exclusive(layout.cache / "packages.lock", what="the installation of packages"):
        packages = missing_packages()
        if packages:
            install_packages(layout, packages)


def install_packages(layout: Layout, packages: Sequence[str]) -> None:
    """Install Debian packages. Raises LabError with the command where the lab may not."""
    command = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
    if not may_install():
        raise LabError(
            f"Debian packages are missing: {', '.join(packages)}. Run `{command}`, "
            "or set KVIS_LAB_INSTALL=1 to let the lab do so"
        )
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = layout.logs / "apt.log"
    with step(f"install {', '.join(packages)} by apt-get", long=True), log.open("w") as out:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["apt-get", "update"], command.split()):
            # The services that the packages start are not used: the lab runs its own containerd.
            done = subprocess.run(words, env=environment, stdout=out, stderr=out, check=False)
            if done.returncode != 0 and words[1] == "install":
                raise StepError("install packages", f"`{command}` failed", log)


def go_lacks() -> list[str]:
    """Whether Go is here and new enough."""
    advice = "install Go 1.26 from https://go.dev/dl and put its bin folder on PATH"
    if shutil.which("go") is None:
        return [f"Go >= {GO_MINIMUM[0]}.{GO_MINIMUM[1]}: not on PATH; {advice}"]
    text = subprocess.run(["go", "version"], capture_output=True, text=True, check=False).stdout
    found = parse_go_version(text)
    if found is None or found < GO_MINIMUM:
        return [f"Go >= {GO_MINIMUM[0]}.{GO_MINIMUM[1]}: found {text.strip() or 'none'}; {advice}"]
    return []


def parse_go_version(text: str) -> tuple[int, int] | None:
    """Major and minor from the output of `go version`."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def disk_lacks(folder: Path, gib: int) -> list[str]:
    """Whether the disk under a folder (that may not exist yet) has room."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free >= gib * GIB:
        return []
    advice = "free some, or set XDG_CACHE_HOME to a folder on a larger disk"
    return [f"disk: {free / GIB:.0f} GiB free under {existing}, {gib} GiB needed; {advice}"]


def busy_ports(ports: Sequence[int]) -> list[str]:
    """Ports that somebody else listens on."""
    return [
        f"port {port}: in use; end its owner (`ss -ltnp 'sport = :{port}'`)"
        for port in ports
        if _is_busy(port)
    ]


def _is_busy(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return True
    return False

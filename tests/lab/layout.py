"""Where the lab keeps its things, and what it calls them.

One lab per machine: a node needs fixed names for its bridge, cgroup and run folder. `state` (thrown away
with the lab) and `cache` (kept, so that a second run takes seconds) are folders; everything outside them
that the lab makes on the machine carries a name from this file, which is what `cleanup` looks for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]

RUN: Final = Path("/run/kvis-lab")  # sockets and mounts: short, because a socket's path ends at 108 bytes
OWNER: Final = RUN / "owner"  # which checkout's lab this machine has
BUILD_RUN: Final = Path("/run/kvis-lab-build")  # of image builds, which need no lab
BRIDGE: Final = "kvis-lab0"
NETWORK: Final = "kvis-lab"
CGROUP: Final = "kvis-lab"
NODE_NAME: Final = "kvis-lab"
POD_CIDR: Final = "10.244.0.0/16"  # of the cluster; nodes get a /24 each
NODE_POD_CIDR: Final = "10.244.0.0/24"
SERVICE_CIDR: Final = "10.96.0.0/16"
API_SERVICE_IP: Final = "10.96.0.1"

API_PORT: Final = 26443
ETCD_PORT: Final = 22379
ETCD_PEER_PORT: Final = 22380
CONTROLLER_MANAGER_PORT: Final = 20257
SCHEDULER_PORT: Final = 20259
KUBELET_PORT: Final = 10250
KUBELET_HEALTH_PORT: Final = 20248
PROXY_HEALTH_PORT: Final = 20256


def cache_folder() -> Path:
    """The user's cache folder for KVIS: binaries, container images, built layers."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvis"


@dataclass(frozen=True, slots=True)
class Layout:
    """The lab's folders. Every path below is derived, so that two parts cannot disagree about one."""

    state: Path
    cache: Path

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def processes(self) -> Path:
        return self.state / "processes"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def etcd(self) -> Path:
        return self.state / "etcd"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    @property
    def pod_logs(self) -> Path:
        return self.logs / "pods"

    @property
    def kubelet(self) -> Path:
        return self.state / "kubelet"

    @property
    def images(self) -> Path:
        return self.state / "images.json"

    @property
    def record(self) -> Path:
        return self.state / "cluster.json"

    @property
    def sysctls(self) -> Path:
        return self.state / "sysctls.json"

    @property
    def binaries(self) -> Path:
        return self.cache / "bin"

    @property
    def builds(self) -> Path:
        """The store of built images."""
        return self.cache / "buildah"

    @property
    def packed(self) -> Path:
        """The same images as a folder that containerd can be given."""
        return self.cache / "oci"

    @property
    def build_lock(self) -> Path:
        return self.cache / "buildah.lock"

    @property
    def containerd(self) -> Path:
        return self.cache / "containerd"

    @property
    def containerd_socket(self) -> Path:
        return RUN / "containerd.sock"

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig of a component; the administrator's is `kubeconfig`."""
        return self.pki / f"{user}.kubeconfig"


def default_layout() -> Layout:
    """The lab of this checkout; KVIS_LAB_STATE moves its folder to another disk."""
    state = Path(os.environ.get("KVIS_LAB_STATE") or REPOSITORY / "build" / "lab")
    return Layout(state=state.absolute(), cache=cache_folder().absolute())

"""A real node on this machine: containerd, kubelet, kube-proxy, and a bridge network made by the CNI plugins.

The system's own containerd is left alone: ours has its own folders and socket. It keeps its image store in
the cache, so that images survive the lab; containers never do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

from . import api, binaries, node_settings, pod_images, preflight, processes
from .cleanup import CGROUP_ROOT
from .control_plane import node_address
from .ctr import ctr
from .layout import (
    CGROUP,
    KUBELET_HEALTH_PORT,
    KUBELET_PORT,
    NODE_NAME,
    OWNER,
    PROXY_HEALTH_PORT,
    RUN,
    Layout,
)
from .progress import LabError, step

READY_SECONDS: Final = 90.0
CONTAINERD_SECONDS: Final = 30.0
MODULES: Final = ("overlay", "br_netfilter")
TOUCHED_SYSCTLS: Final = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet",
    "net/bridge/bridge-nf-call-iptables",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What kubelet, kube-proxy and the network change; `down` puts the old values back."""


def start_containerd(layout: Layout) -> None:
    """Start the container runtime alone: images can be imported before there is a cluster.

    On a machine that a clean-up left (no owner) containers in the store are those of a killed lab: they belong to
    no API server and go before a kubelet sees them. When only containerd itself died, they stay.
    """
    if processes.is_running(layout, "containerd"):
        return
    is_first_start = not OWNER.exists()
    RUN.mkdir(parents=True, exist_ok=True)
    OWNER.write_text(f"{layout.state}\n")
    _load_modules()
    _remember_sysctls(layout)
    _let_bridged_packets_pass_the_firewall()
    node_settings.write_containerd(layout)
    with step("start containerd"):
        _run_containerd(layout)
        stale = ctr("containers", "list", "--quiet").split() if is_first_start else []
        if stale:
            ctr("containers", "delete", *stale)
            processes.stop(layout, "containerd")
            _run_containerd(layout)


def ensure(layout: Layout) -> None:
    """Start what does not run of the node, and wait until it is Ready. containerd must run."""
    if is_whole(layout):
        return
    ports = [] if processes.is_running(layout, "kubelet") else [KUBELET_PORT, KUBELET_HEALTH_PORT]
    ports += [] if processes.is_running(layout, "kube-proxy") else [PROXY_HEALTH_PORT]
    if busy := preflight.busy_ports(ports):
        raise LabError("the node cannot start:\n" + "\n".join(f"  - {line}" for line in busy))
    pod_images.ensure(layout)
    node_settings.write_kubernetes(layout, node_address())
    with step("start kubelet and kube-proxy, wait for the node to be Ready"):
        _make_cgroups()
        _start_kubelet(layout)
        _start_proxy(layout)
        ready = partial(api.is_node_ready, layout, NODE_NAME)
        processes.wait_ready(layout, "kubelet", ready, timeout_seconds=READY_SECONDS)


def is_whole(layout: Layout) -> bool:
    """Whether every process of the node runs and the node is Ready."""
    running = all(processes.is_running(layout, name) for name in ("containerd", "kubelet", "kube-proxy"))
    return running and api.is_node_ready(layout, NODE_NAME)


def _run_containerd(layout: Layout) -> None:
    argv = ["/usr/bin/containerd", "--config", node_settings.containerd_file(layout)]
    processes.start(layout, "containerd", argv)
    processes.wait_ready(layout, "containerd", _containerd_answers, timeout_seconds=CONTAINERD_SECONDS)


def _containerd_answers() -> bool:
    try:
        ctr("version")
    except (LabError, subprocess.TimeoutExpired):
        return False
    return True


def _make_cgroups() -> None:
    """The kubelet's root cgroup, wanted in every hierarchy (version 1 has one per controller)."""
    if (CGROUP_ROOT / "cgroup.controllers").exists():
        (CGROUP_ROOT / "cgroup.subtree_control").write_text("+cpu +cpuset +memory +pids")
        (CGROUP_ROOT / CGROUP).mkdir(exist_ok=True)
        return
    for root in (path for path in CGROUP_ROOT.iterdir() if (path / "cgroup.procs").exists()):
        group = root / CGROUP
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # takes no task until it has both
            if (group / setting).exists():
                (group / setting).write_text((root / setting).read_text())


def _load_modules() -> None:
    """Modules that many kernels load on demand only; one that is built in or missing is no error."""
    if shutil.which("modprobe"):
        subprocess.run(["modprobe", "--all", *MODULES], capture_output=True, check=False)


def _let_bridged_packets_pass_the_firewall() -> None:
    """Else an answer from a Service's pod on the same bridge comes from the wrong address."""
    setting = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if setting.exists():
        setting.write_text("1")


def _start_kubelet(layout: Layout) -> None:
    flags = {
        "config": node_settings.kubelet_file(layout),
        "kubeconfig": layout.kubeconfig_of("kubelet"),
        "root-dir": layout.kubelet,
        "cert-dir": layout.kubelet / "pki",
        "hostname-override": NODE_NAME,
        "node-ip": node_address(),
    }
    argv = [binaries.find(layout, "kubelet"), *(f"--{flag}={value}" for flag, value in flags.items())]
    processes.start(layout, "kubelet", argv)


def _start_proxy(layout: Layout) -> None:
    argv = [binaries.find(layout, "kube-proxy"), f"--config={node_settings.proxy_file(layout)}"]
    processes.start(layout, "kube-proxy", argv)


def _remember_sysctls(layout: Layout) -> None:
    if layout.sysctls.exists():
        return
    values = {}
    for name in TOUCHED_SYSCTLS:
        path = Path("/proc/sys", name)
        if path.exists():
            values[name] = path.read_text()
    layout.sysctls.write_text(json.dumps(values, indent=1))

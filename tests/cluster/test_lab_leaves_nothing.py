"""The lab takes everything away that it brought, also after a hard kill; ends with the lab up again.

Needs the machine to itself: it takes the lab down and up. What is compared comes from the kernel, not
from the lab's own records.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lab
from lab import cleanup, processes
from lab.firewall import left_over
from lab.layout import BRIDGE, RUN, default_layout
from lab.node import TOUCHED_SYSCTLS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("own_lab"),
]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: left, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: shell
    image: localhost/kvis-lab/busybox:1
    command: [sleep, "3600"]
    ports: [{containerPort: 80, hostPort: 28080}]
    volumeMounts: [{name: memory, mountPath: /memory}]
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
"""


@pytest.fixture
def own_lab(cluster: lab.Cluster) -> Iterator[lab.Cluster]:
    """The lab of this machine, down at the start of the test and up again at its end."""
    if cluster.source is not lab.Source.LAB:
        pytest.skip(f"only the lab leaves traces on a machine; this is {cluster.source.value}")
    had_images = bool(cluster.images)
    lab.down()
    yield cluster
    lab.up(with_images=had_images)


def traces() -> dict[str, object]:
    """What a node changes on a machine, as the kernel tells it."""
    layout = default_layout()
    mounts = Path("/proc/self/mountinfo").read_text()
    folders = (Path("/run/netns"), Path("/var/lib/cni/results"), Path("/var/log/containers"))
    return {
        "processes": sorted(_processes(f"{layout.cache}/bin/", f"{RUN}/")),
        "mounts": sorted(line.split()[4] for line in mounts.splitlines()),
        "links": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "cgroups": sorted(map(str, cleanup.cgroups_of_lab())),
        "firewall": [
            line for tool in ("iptables", "ip6tables") for line in left_over(_output(f"{tool}-save"))
        ],
        "routes": _output("ip", "route"),
        "files": sorted(str(path) for folder in folders if folder.exists() for path in folder.iterdir()),
        "run": RUN.exists(),
        "sysctls": {name: _sysctl(name) for name in TOUCHED_SYSCTLS},
    }


def run_a_pod(cluster: lab.Cluster) -> None:
    kubectl = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig)]
    subprocess.run([*kubectl, "apply", "-f", "-"], input=POD, text=True, check=True, capture_output=True)
    wait = ["wait", "pod/left", "--for=condition=Ready", "--timeout=60s"]
    subprocess.run([*kubectl, *wait], check=True, capture_output=True)


def kill_everything() -> None:
    """As if the power of the lab alone had been cut: no process gets to say goodbye."""
    layout = default_layout()
    for name in processes.names(layout):
        processes.kill(layout, name)
    for pid in cleanup.shim_pids():
        os.kill(pid, signal.SIGKILL)


def test_down_leaves_the_machine_as_it_was() -> None:
    before = traces()
    run_a_pod(lab.up(with_images=False))
    assert BRIDGE in _links()
    lab.down()
    assert traces() == before


def test_down_after_a_hard_kill_leaves_the_machine_as_it_was() -> None:
    before = traces()
    run_a_pod(lab.up(with_images=False))
    kill_everything()
    lab.down()
    assert traces() == before


def test_up_after_a_hard_kill_starts_clean() -> None:
    run_a_pod(lab.up(with_images=False))
    kill_everything()
    found = lab.up(with_images=False)
    pods = [str(found.kubectl), "--kubeconfig", str(found.kubeconfig), "get", "pods", "--output=name"]
    assert _output(*pods) == ""
    run_a_pod(found)


def test_a_second_up_takes_seconds() -> None:
    lab.up(with_images=False)
    started = time.monotonic()
    lab.up(with_images=False)
    assert time.monotonic() - started < 5


def _links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _processes(*marks: str) -> Iterator[str]:
    for folder in Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_text(errors="replace") if folder.name.isdigit() else ""
        except OSError:
            continue
        if any(mark in line for mark in marks):
            yield line


def _sysctl(name: str) -> str | None:
    path = Path("/proc/sys", name)
    return path.read_text() if path.exists() else None

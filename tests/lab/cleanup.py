"""Take away everything that a lab leaves on a machine, found by the names of `layout`, whatever state it is
in.

Used by `down`, and by `up` for what a killed run left. Every part may be missing; nothing of anybody else
is touched: processes by their record or by our containerd's address, mounts by our folders, iptables chains
by Kubernetes' and CNI's prefixes (a machine has one node), cgroups and the bridge by our name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from . import control_plane, processes
from .firewall import remove_chains
from .layout import BRIDGE, BUILD_RUN, CGROUP, RUN, Layout
from .locks import exclusive_if_free
from .progress import StepError, step

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
CNI_RESULTS: Final = Path("/var/lib/cni/results")
CONTAINER_LINKS: Final = Path("/var/log/containers")
SHIM_SOCKETS: Final = Path("/run/containerd/s")
NODE_PROCESSES: Final = ("kubelet", "kube-proxy")
END_SECONDS: Final = 20.0


def take_down(layout: Layout) -> None:
    """End every process of the lab and remove its traces. Logs and the cache stay."""
    with step("stop the lab's processes"):
        for name in NODE_PROCESSES:
            processes.stop(layout, name)
        _end_containers()
        for name in ("containerd", *reversed(control_plane.NAMES)):
            processes.stop(layout, name)
        _end_shims()
    with step("remove the lab's mounts, network, cgroups and files"):
        unmount_below((RUN, layout.state, layout.containerd))
        _release_build_store(layout)
        if os.geteuid() == 0:
            _remove_network()
            _remove_cgroups()
            _restore_sysctls(layout)
        _remove_files(layout)


def drop_logs(layout: Layout) -> None:
    """Remove what the processes and pods of an earlier lab wrote; the logs of builds stay."""
    for name in ("containerd", *NODE_PROCESSES, *control_plane.NAMES):
        processes.log_of(layout, name).unlink(missing_ok=True)
    for audit in layout.logs.glob(f"{layout.audit_log.stem}*"):
        audit.unlink()
    shutil.rmtree(layout.pod_logs, ignore_errors=True)


def mounts_below(table: str, folders: Iterable[Path]) -> list[str]:
    """Mount points inside the folders, deepest first, from the text of mountinfo(5)."""
    prefixes = tuple(f"{folder}/" for folder in folders)
    points = [_unescape(line.split()[4]) for line in table.splitlines()]
    inside = [point for point in points if f"{point}/".startswith(prefixes)]
    return sorted(inside, key=len, reverse=True)


def unmount_below(folders: Sequence[Path]) -> None:
    """Unmount everything inside the folders; a busy mount is detached and goes when its last user does."""
    for point in mounts_below(Path("/proc/self/mountinfo").read_text(), folders):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


def cgroups_of_lab() -> list[Path]:
    """The lab's cgroup in every hierarchy, deepest first within each."""
    roots = [
        folder / CGROUP for folder in (CGROUP_ROOT, *_folders(CGROUP_ROOT)) if (folder / CGROUP).is_dir()
    ]
    found: list[Path] = []
    for root in roots:
        below = [Path(folder) for folder, _, _ in os.walk(root)]
        found += sorted(below, key=lambda path: len(path.parts), reverse=True)
    return found


def shim_pids() -> list[int]:
    """Processes that serve containers of the lab's containerd, and that containerd itself."""
    address = f"{RUN}/containerd.sock"
    return [pid for pid in _all_pids() if address in _command_line(pid)]


def _release_build_store(layout: Layout) -> None:
    """Unmount what image builds left; one that is running keeps what it has."""
    with exclusive_if_free(layout.build_lock) as is_free:
        if is_free:
            unmount_below((layout.builds, BUILD_RUN))
            shutil.rmtree(BUILD_RUN, ignore_errors=True)


def _end_containers() -> None:
    """Kill every process in the lab's cgroups: the containers, however they were started."""
    deadline = time.monotonic() + END_SECONDS
    while pids := _cgroup_pids():
        for pid in pids:
            _kill(pid)
        if time.monotonic() > deadline:
            raise StepError(
                "end containers", f"processes {sorted(pids)} do not end; see `ps -o pid,stat,cmd`"
            )
        time.sleep(0.05)


def _cgroup_pids() -> set[int]:
    found: set[int] = set()
    for folder in cgroups_of_lab():
        try:
            found.update(int(word) for word in (folder / "cgroup.procs").read_text().split())
        except OSError:
            continue
    return {pid for pid in found if _command_line(pid)}  # a zombie has none and cannot be killed


def _end_shims() -> None:
    deadline = time.monotonic() + END_SECONDS
    while (pids := shim_pids()) and time.monotonic() < deadline:
        for pid in pids:
            _kill(pid)
        time.sleep(0.05)


def _remove_network() -> None:
    if shutil.which("ip"):
        subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)
    for tool in ("iptables", "ip6tables"):
        if shutil.which(tool):
            remove_chains(tool)


def _remove_cgroups() -> None:
    deadline = time.monotonic() + END_SECONDS
    while (folders := cgroups_of_lab()) and time.monotonic() < deadline:
        for folder in folders:
            try:
                folder.rmdir()
            except OSError:
                continue  # a child or a dying process is still in it; the next round gets it
        time.sleep(0.05)


def _restore_sysctls(layout: Layout) -> None:
    if not layout.sysctls.exists():
        return
    for name, value in json.loads(layout.sysctls.read_text()).items():
        try:
            Path("/proc/sys", name).write_text(value)
        except OSError:
            continue  # a kernel without this setting
    layout.sysctls.unlink()


def _remove_files(layout: Layout) -> None:
    for result in CNI_RESULTS.glob("*"):
        if f"{RUN}/" in result.read_text(errors="replace"):  # the network namespace it is about is ours
            result.unlink(missing_ok=True)
    for link in CONTAINER_LINKS.glob("*.log"):
        if str(layout.logs) in str(link.readlink()):
            link.unlink(missing_ok=True)
    for socket in SHIM_SOCKETS.glob("*"):
        if not _is_listened_on(socket):
            socket.unlink(missing_ok=True)
    for folder in (RUN, layout.etcd, layout.kubelet, layout.pki, layout.processes):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (layout.kubeconfig, layout.images, layout.record):
        file.unlink(missing_ok=True)
    for folder in (CONTAINER_LINKS, SHIM_SOCKETS, SHIM_SOCKETS.parent, CNI_RESULTS, CNI_RESULTS.parent):
        _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # not ours alone, or not there


def _is_listened_on(socket: Path) -> bool:
    return any(line.endswith(f" {socket}") for line in Path("/proc/net/unix").read_text().splitlines())


def _folders(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if path.is_dir()]
    except OSError:
        return []


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _unescape(point: str) -> str:
    """mountinfo writes blanks and backslashes in octal."""
    return point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")

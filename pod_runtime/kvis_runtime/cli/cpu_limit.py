"""How many CPUs this process may use: its cgroup's quota (v1 and v2), its affinity, the machine.

A pod with a CPU limit sees every core of its node; a thread per core would then be throttled most of the
time. In a container the own cgroup is usually the root of the mounted hierarchy, on a host it is further
down; quotas above it bind too, so the smallest on the way up counts.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
OWN_CGROUPS: Final = Path("/proc/self/cgroup")


def usable_cpus(*, root: Path = CGROUP_ROOT, own: Path = OWN_CGROUPS) -> int:
    """Return whole CPUs, at least 1; a quota of half a CPU or more above a whole one counts as one more."""
    available = float(len(os.sched_getaffinity(0)))
    quota = cpu_quota(root=root, own=own)
    limit = available if quota is None else min(available, quota)
    return max(1, int(limit + 0.5))


def cpu_quota(*, root: Path = CGROUP_ROOT, own: Path = OWN_CGROUPS) -> float | None:
    """Return the smallest CPU quota that binds this process, None when there is none."""
    quotas = [quota for folder in _folders(root, own) if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def _folders(root: Path, own: Path) -> Iterator[Path]:
    """Yield this process's cgroup and those above it, in both hierarchies."""
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = root
        elif "cpu" in controllers.split(","):
            top = root / "cpu"
        else:
            continue
        folder = top / path.lstrip("/")
        yield folder
        yield from (parent for parent in folder.parents if parent.is_relative_to(top))


def _quota_of(folder: Path) -> float | None:
    unified = _read(folder / "cpu.max").split()
    if len(unified) == 2 and unified[0] != "max":
        return int(unified[0]) / int(unified[1])
    quota = _read(folder / "cpu.cfs_quota_us").strip()
    period = _read(folder / "cpu.cfs_period_us").strip()
    if quota and period and int(quota) > 0:
        return int(quota) / int(period)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError:
        return ""

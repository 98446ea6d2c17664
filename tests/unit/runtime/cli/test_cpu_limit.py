"""The CPU limit of a container is found in both cgroup versions, at its own level or above."""

import os

import pytest

from kvis_runtime.cli.cpu_limit import cpu_quota, usable_cpus


@pytest.fixture
def cgroup(tmp_path):
    """Write files below a cgroup root and the process's own entry; returns what the functions take."""

    def write(own, files):
        for name, content in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "own").write_text(own)
        return {"root": tmp_path / "fs", "own": tmp_path / "own"}

    return write


def v1(quota, period=100_000):
    return {"cpu/cpu.cfs_quota_us": f"{quota}\n", "cpu/cpu.cfs_period_us": f"{period}\n"}


def test_version_2_in_a_container(cgroup):
    assert cpu_quota(**cgroup("0::/\n", {"cpu.max": "150000 100000\n"})) == 1.5


def test_version_2_without_a_limit(cgroup):
    assert cpu_quota(**cgroup("0::/\n", {"cpu.max": "max 100000\n"})) is None


def test_version_2_takes_the_smallest_on_the_way_up(cgroup):
    files = {"pods/cpu.max": "100000 100000\n", "pods/mine/cpu.max": "400000 100000\n"}
    assert cpu_quota(**cgroup("0::/pods/mine\n", files)) == 1.0


def test_version_1_in_a_container_whose_path_is_the_hosts(cgroup):
    own = "4:cpu,cpuacct:/kubepods/pod1\n1:name=systemd:/x\n"
    assert cpu_quota(**cgroup(own, v1(250_000))) == 2.5


def test_version_1_without_a_limit(cgroup):
    assert cpu_quota(**cgroup("4:cpu,cpuacct:/\n", v1(-1))) is None


def test_no_cgroup_at_all(tmp_path):
    assert cpu_quota(root=tmp_path, own=tmp_path / "missing") is None


@pytest.mark.parametrize(("quota", "cpus"), [(20_000, 1), (100_000, 1), (140_000, 1), (150_000, 2)])
def test_a_fraction_counts_from_one_half(cgroup, quota, cpus):
    expected = min(cpus, len(os.sched_getaffinity(0)))
    assert usable_cpus(**cgroup("0::/\n", {"cpu.max": f"{quota} 100000\n"})) == expected


def test_without_a_limit_the_affinity_counts(tmp_path):
    assert usable_cpus(root=tmp_path, own=tmp_path / "missing") == len(os.sched_getaffinity(0))

"""What a clean-up finds, and what it leaves to others."""

from __future__ import annotations

from pathlib import Path

from lab.cleanup import mounts_below
from lab.firewall import left_over, removal_script

SAVED = """*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-0a1b - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A POSTROUTING -s 10.244.0.2/32 -j CNI-0a1b
-A KUBE-SERVICES -j KUBE-NODEPORTS
COMMIT
*filter
:INPUT ACCEPT [0:0]
COMMIT
"""


def test_chains_are_emptied_before_the_jumps_to_them_and_they_go() -> None:
    assert removal_script(SAVED).splitlines() == [
        "*nat",
        ":KUBE-SERVICES - [0:0]",
        ":CNI-0a1b - [0:0]",
        '-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        "-D POSTROUTING -s 10.244.0.2/32 -j CNI-0a1b",
        "-X KUBE-SERVICES",
        "-X CNI-0a1b",
        "COMMIT",
    ]


def test_a_firewall_without_kubernetes_is_left_alone() -> None:
    assert removal_script("*filter\n:INPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n-A INPUT -j DOCKER\nCOMMIT\n") == ""


def test_left_over_lines_name_chains_and_jumps() -> None:
    assert len(left_over(SAVED)) == 5


def test_mounts_inside_our_folders_are_found_deepest_first() -> None:
    table = "\n".join(
        f"1 0 8:1 / {point} rw - ext4 /dev/sda rw"
        for point in ("/", "/lab/a", "/lab/a/b\\040c", "/laboratory/x")
    )
    assert mounts_below(table, [Path("/lab")]) == ["/lab/a/b c", "/lab/a"]

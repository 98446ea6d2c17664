"""Removes the iptables chains that kube-proxy, the kubelet and the CNI plugins make, and jumps to them."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from typing import Final

PREFIXES: Final = ("KUBE-", "CNI-")


def remove_chains(tool: str) -> None:
    """Remove every Kubernetes and CNI chain; `tool` is iptables or ip6tables."""
    saved = subprocess.run([f"{tool}-save"], capture_output=True, text=True, check=False).stdout
    script = removal_script(saved)
    if script:
        command = [f"{tool}-restore", "--noflush", "--wait", "5"]
        subprocess.run(command, input=script, capture_output=True, text=True, check=False)


def removal_script(saved: str) -> str:
    """Input for iptables-restore that undoes the chains found in the output of iptables-save.

    Naming a chain empties it; then rules of other chains that jump to it are deleted, then the chain itself.
    """
    out: list[str] = []
    for table, lines in _tables(saved):
        chains = [line[1:].split()[0] for line in lines if line.startswith(":")]
        ours = [chain for chain in chains if chain.startswith(PREFIXES)]
        if not ours:
            continue
        jumps = [line for line in lines if _jumps_from_elsewhere(line)]
        out += [f"*{table}", *(f":{chain} - [0:0]" for chain in ours)]
        out += [f"-D{line[2:]}" for line in jumps]
        out += [*(f"-X {chain}" for chain in ours), "COMMIT"]
    return "".join(f"{line}\n" for line in out)


def left_over(saved: str) -> list[str]:
    """Chains and rules of Kubernetes or CNI in the output of iptables-save."""
    return [line for line in saved.splitlines() if any(prefix in line for prefix in PREFIXES)]


def _tables(saved: str) -> list[tuple[str, list[str]]]:
    tables: list[tuple[str, list[str]]] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            tables.append((line[1:], []))
        elif tables:
            tables[-1][1].append(line)
    return tables


def _jumps_from_elsewhere(line: str) -> bool:
    words = line.split()
    if len(words) < 2 or words[0] != "-A" or words[1].startswith(PREFIXES):
        return False
    return any(flag in ("-j", "-g") and target.startswith(PREFIXES) for flag, target in pairwise(words))

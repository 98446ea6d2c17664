"""etcd, API server, controller manager and scheduler as plain processes: up in about five seconds, keys
included.

The data is thrown away with the lab, so etcd does not wait for the disk. Every request except reads of the
cluster's own parts goes to the audit log: the proof of who wrote what.
"""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path
from typing import Final

from . import api, binaries, processes
from .certificates import (
    Authority,
    api_server_names,
    create_authority,
    create_signing_key,
    issue_client,
    issue_server,
)
from .kubeconfig import write_kubeconfig
from .layout import (
    API_PORT,
    CONTROLLER_MANAGER_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    NODE_NAME,
    POD_CIDR,
    SCHEDULER_PORT,
    SERVICE_CIDR,
    Layout,
)
from .progress import LabError, step

NAMES: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")  # in order of start
CLIENTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "admin": ("kvis-lab-admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "kubelet": (f"system:node:{NODE_NAME}", ("system:nodes",)),
    "kube-apiserver-kubelet": ("kvis-lab-apiserver", ("system:masters",)),
}
"""File name -> user and groups."""

AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # The cluster's own housekeeping would bury what the tests look for.
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
        {
            "level": "None",
            "users": [
                "system:apiserver",
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "system:kube-proxy",
            ],
        },
        {"level": "None", "nonResourceURLs": ["/livez*", "/readyz*", "/healthz*", "/openapi*", "/version"]},
        {"level": "Metadata"},
    ],
}


def node_address() -> str:
    """The machine's own address: the one it would use to reach the world (no packet is sent)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            raise LabError(
                "this machine has no address besides loopback, and a kubelet refuses that one; add one: "
                "`ip link add kvis0 type dummy; ip addr add 192.168.250.1/24 dev kvis0; "
                "ip link set kvis0 up; ip route add default dev kvis0`"
            ) from error
        return str(probe.getsockname()[0])


def start(layout: Layout) -> None:
    """Bring the control plane up: new keys, an empty etcd, every process answering."""
    address = node_address()
    with step("make keys and certificates"):
        write_keys(layout, address)
    with step("start etcd, API server, controller manager and scheduler"):
        _start_etcd(layout)
        _start_api_server(layout, address)
        _start_controllers(layout)


def write_keys(layout: Layout, address: str) -> None:
    """The authority, every client's certificate and kubeconfig, the server's certificate, the signing key."""
    authority = create_authority(layout.pki)
    issue_server(authority, "apiserver", name="kube-apiserver", names=api_server_names(address))
    issue_server(authority, "kubelet-server", name=NODE_NAME, names=[NODE_NAME, address, "127.0.0.1"])
    create_signing_key(layout.pki, "service-accounts")
    for file in CLIENTS:
        _write_client(layout, authority, file)
    policy = layout.pki / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY, indent=1))


def _write_client(layout: Layout, authority: Authority, file: str) -> None:
    user, groups = CLIENTS[file]
    client = issue_client(authority, file, user=user, groups=groups)
    target = layout.kubeconfig if file == "admin" else layout.kubeconfig_of(file)
    write_kubeconfig(target, authority, client, user=user)


def _start_etcd(layout: Layout) -> None:
    client, peer = (f"http://127.0.0.1:{port}" for port in (ETCD_PORT, ETCD_PEER_PORT))
    flags = {
        "name": "lab",
        "data-dir": layout.etcd,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"lab={peer}",
    }
    processes.start(layout, "etcd", [*_command(layout, "etcd", flags), "--unsafe-no-fsync"])
    processes.wait_ready(layout, "etcd", lambda: _accepts(ETCD_PORT), timeout_seconds=30)


def _start_api_server(layout: Layout, address: str) -> None:
    argv = _command(layout, "kube-apiserver", api_server_flags(layout, address))
    processes.start(layout, "kube-apiserver", argv)
    processes.wait_ready(layout, "kube-apiserver", lambda: api.is_ready(layout), timeout_seconds=90)


def api_server_flags(layout: Layout, address: str) -> dict[str, object]:
    """Its flags. It listens on every address, so that pods reach it through the Service as well."""
    pki = layout.pki
    return {
        "etcd-servers": f"http://127.0.0.1:{ETCD_PORT}",
        "bind-address": "0.0.0.0",
        "advertise-address": address,
        "secure-port": API_PORT,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "service-cluster-ip-range": SERVICE_CIDR,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": pki / "service-accounts.pub",
        "service-account-signing-key-file": pki / "service-accounts.key",
        "allow-privileged": "true",
        # Without these three `kubectl logs` and `exec` fail: on the node's name, then on credentials.
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-client-certificate": pki / "kube-apiserver-kubelet.crt",
        "kubelet-client-key": pki / "kube-apiserver-kubelet.key",
        "audit-policy-file": pki / "audit-policy.json",
        "audit-log-path": layout.audit_log,
        "audit-log-maxsize": 200,
        "audit-log-maxbackup": 2,
        "audit-log-mode": "blocking",
    }


def _start_controllers(layout: Layout) -> None:
    pki = layout.pki
    manager = {
        "kubeconfig": layout.kubeconfig_of("kube-controller-manager"),
        "service-account-private-key-file": pki / "service-accounts.key",
        "root-ca-file": pki / "ca.crt",
        "use-service-account-credentials": "true",
        "allocate-node-cidrs": "true",
        "cluster-cidr": POD_CIDR,
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": CONTROLLER_MANAGER_PORT,
        # Its own brake of 20 calls a second makes the start of its forty controllers take five seconds.
        "kube-api-qps": 500,
        "kube-api-burst": 500,
    }
    scheduler = {
        "kubeconfig": layout.kubeconfig_of("kube-scheduler"),
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": SCHEDULER_PORT,
    }
    processes.start(layout, "kube-controller-manager", _command(layout, "kube-controller-manager", manager))
    processes.start(layout, "kube-scheduler", _command(layout, "kube-scheduler", scheduler))
    has_account = partial(api.has_default_account, layout)
    processes.wait_ready(layout, "kube-controller-manager", has_account, timeout_seconds=60)
    processes.wait_ready(layout, "kube-scheduler", partial(_accepts, SCHEDULER_PORT), timeout_seconds=30)


def _command(layout: Layout, name: str, flags: dict[str, object]) -> list[str | Path]:
    return [binaries.find(layout, name), *(f"--{flag}={value}" for flag, value in flags.items())]


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False

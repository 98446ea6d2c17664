"""The configuration files of containerd, CNI, kubelet and kube-proxy for the lab's node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from .layout import (
    BRIDGE,
    CGROUP,
    KUBELET_HEALTH_PORT,
    KUBELET_PORT,
    NETWORK,
    NODE_NAME,
    NODE_POD_CIDR,
    POD_CIDR,
    PROXY_HEALTH_PORT,
    RUN,
    Layout,
)
from .pod_images import PAUSE

CNI_PLUGINS: Final = "/usr/lib/cni"
MAX_PODS: Final = 110


def write_containerd(layout: Layout) -> None:
    """Write what containerd reads when it starts: its own file and the network's."""
    network = _settings(layout) / "cni" / "10-kvis-lab.conflist"
    network.parent.mkdir(parents=True, exist_ok=True)
    network.write_text(json.dumps(network_list(), indent=1))
    containerd_file(layout).write_text(containerd_toml(layout))


def write_kubernetes(layout: Layout, address: str) -> None:
    """Write what the kubelet and kube-proxy read when they start."""
    _settings(layout).mkdir(parents=True, exist_ok=True)
    kubelet_file(layout).write_text(json.dumps(kubelet_settings(layout, address), indent=1))
    proxy_file(layout).write_text(json.dumps(proxy_settings(layout), indent=1))


def containerd_file(layout: Layout) -> Path:
    """containerd's configuration."""
    return _settings(layout) / "containerd.toml"


def kubelet_file(layout: Layout) -> Path:
    """The kubelet's configuration."""
    return _settings(layout) / "kubelet.json"


def proxy_file(layout: Layout) -> Path:
    """kube-proxy's configuration."""
    return _settings(layout) / "kube-proxy.json"


def containerd_toml(layout: Layout) -> str:
    """containerd 1.6's version 2 format.

    restrict_oom_score_adj: without CAP_SYS_RESOURCE (root in many virtual machines) every sandbox would die
    on lowering its score. Network namespaces lie under our state folder: a clean-up knows whose they are.
    """
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{layout.containerd}"
state = "{RUN}/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{layout.containerd_socket}"

[{cri}]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true
netns_mounts_under_state_dir = true

[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false

[{cri}.cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{_settings(layout) / "cni"}"
"""


def network_list() -> dict[str, Any]:
    """One bridge for all pods, addresses given out from files under our run folder."""
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{RUN}/addresses",
            "ranges": [[{"subnet": NODE_POD_CIDR}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": NETWORK, "plugins": [bridge, portmap]}


def kubelet_settings(layout: Layout, address: str) -> dict[str, Any]:
    """Nothing reserved, hardly anything evicted, no image collected: all of a small node is for pods."""
    pki = layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": KUBELET_PORT,
        "healthzPort": KUBELET_HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "podLogsDir": str(layout.pod_logs),
        "volumePluginDir": str(layout.kubelet / "plugins"),
        "maxPods": MAX_PODS,
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "enforceNodeAllocatable": ["pods"],
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
    }


def proxy_settings(layout: Layout) -> dict[str, Any]:
    """iptables mode; connection tracking limits are the machine's and stay as they are."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(layout.kubeconfig_of("kube-proxy"))},
        "hostnameOverride": NODE_NAME,
        "clusterCIDR": POD_CIDR,
        "mode": "iptables",
        "healthzBindAddress": f"127.0.0.1:{PROXY_HEALTH_PORT}",
        "metricsBindAddress": "",
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "1s", "syncPeriod": "30s"},
    }


def _settings(layout: Layout) -> Path:
    return layout.state / "node"

"""Bring a cluster up and down, and say what there is. The package's main door.

`up` is idempotent and cheap on a cluster that is up: it adds what is missing and nothing else. A lab whose
parts do not answer is cleaned away and made anew, so that one killed run never spoils the next.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import api, binaries, cleanup, control_plane, images, kind, node, preflight, processes, sources
from .layout import NODE_NAME, OWNER, Layout, default_layout
from .locks import exclusive
from .progress import LabError, say, step
from .sources import Source


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that answers.

    `images` maps operator and runtime to references that its nodes can run; empty without a node.
    """

    source: Source
    kubeconfig: Path
    kubectl: Path
    helm: Path
    images: Mapping[str, str]
    layout: Layout

    @property
    def has_node(self) -> bool:
        """Whether pods run as real containers."""
        return self.source is not Source.CONTROL_PLANE

    @property
    def audit_log(self) -> Path | None:
        """JSON lines of requests to the API server; None where the cluster is not ours."""
        return self.layout.audit_log if self.source in (Source.LAB, Source.CONTROL_PLANE) else None


def up(*, with_node: bool = True, with_images: bool = True, use_current: bool = False) -> Cluster:
    """A cluster from the best source that this machine has. Raises LabError that says what is missing."""
    layout = default_layout()
    given = sources.existing_kubeconfig(os.environ, use_current=use_current)
    found = None if given else _whole_already(with_node=with_node, with_images=with_images)
    if found is not None:
        return found
    with _one_at_a_time(layout):
        choice = sources.choose(sources.look(layout, use_current=use_current), node=with_node)
        for line in choice.passed_over:
            say(f"not used: {line}")
        say(f"source: {choice.source.value}")
        built: Mapping[str, str]
        match choice.source:
            case Source.EXISTING:
                binaries.ensure(layout, binaries.clients())
                built = _given_images() if with_images else {}
            case Source.KIND:
                built = _up_kind(layout, with_images=with_images)
            case Source.LAB:
                _refuse_beside_another(layout)
                built = _up_lab(layout, with_images=with_images)
            case Source.CONTROL_PLANE:
                _refuse_beside_another(layout)
                _clean_unless_healthy(layout)
                binaries.ensure(layout, binaries.needed(node=False))
                _up_control_plane(layout)
                built = {}
        return _record(layout, choice, built)


def down() -> None:
    """Take the lab or the kind cluster away; an existing cluster is left alone."""
    layout = default_layout()
    if sources.existing_kubeconfig(os.environ, use_current=False):
        say("an existing cluster is left alone")
        layout.record.unlink(missing_ok=True)
        return
    with _one_at_a_time(layout):
        _refuse_beside_another(layout)
        kind.delete_if_ours(layout)
        cleanup.take_down(layout)


def current() -> Cluster | None:
    """The cluster that is up, without starting anything; None when none answers, or when another is asked for."""
    layout = default_layout()
    try:
        saved = json.loads(layout.record.read_text())
    except (FileNotFoundError, ValueError):
        return None
    cluster = Cluster(
        source=Source[saved["source"]],
        kubeconfig=Path(saved["kubeconfig"]),
        kubectl=Path(saved["kubectl"]),
        helm=Path(saved["helm"]),
        images=saved["images"],
        layout=layout,
    )
    given = sources.existing_kubeconfig(os.environ, use_current=False)
    return cluster if given in (None, cluster.kubeconfig) and answers(cluster) else None


def _whole_already(*, with_node: bool, with_images: bool) -> Cluster | None:
    """The lab that is up when it lacks nothing asked for: then nobody need wait for another run."""
    found = current()
    if found is None or found.audit_log is None:
        return None
    if with_node and not (found.source is Source.LAB and node.is_whole(found.layout)):
        return None
    return found if not with_images or dict(found.images) == images.references() else None


def answers(cluster: Cluster) -> bool:
    """Whether the API server answers; only the lab's own is asked."""
    if cluster.audit_log is None:
        return cluster.kubeconfig.exists()
    return api.is_ready(cluster.layout)


def status() -> list[str]:
    """What is up, a line each."""
    layout = default_layout()
    cluster = current()
    if cluster is None:
        return ["no cluster is up; `make lab` brings one up"]
    lines = [f"source: {cluster.source.value}", f"kubeconfig: {cluster.kubeconfig}"]
    lines += [f"image of the {role}: {reference}" for role, reference in cluster.images.items()]
    for name in processes.names(layout):
        pid = processes.pid_of(layout, name)
        lines.append(
            f"{name}: {f'pid {pid}' if pid else 'not running'}, log {processes.log_of(layout, name)}"
        )
    if cluster.source is Source.LAB:
        lines.append(f"node {NODE_NAME}: {'Ready' if api.is_node_ready(layout, NODE_NAME) else 'not Ready'}")
    return lines


def _up_lab(layout: Layout, *, with_images: bool) -> Mapping[str, str]:
    """Compile, build images and start processes at the same time where they do not wait for each other."""
    preflight.install_missing(layout)
    _clean_unless_healthy(layout)
    node.start_containerd(layout)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="images") as pool:
        delivered = pool.submit(images.ensure, layout) if with_images else None
        binaries.ensure(layout, binaries.needed(node=True))
        _up_control_plane(layout)
        node.ensure(layout)
        return delivered.result() if delivered else {}


def _up_control_plane(layout: Layout) -> None:
    if not _is_healthy(layout):
        busy = preflight.busy_ports(preflight.PORTS)
        if busy:
            raise LabError("the control plane cannot start:\n" + "\n".join(f"  - {line}" for line in busy))
        control_plane.start(layout)


def _clean_unless_healthy(layout: Layout) -> None:
    if not _is_healthy(layout):
        cleanup.take_down(layout)
        cleanup.drop_logs(layout)


def _is_healthy(layout: Layout) -> bool:
    return all(processes.is_running(layout, name) for name in control_plane.NAMES) and api.is_ready(layout)


def _up_kind(layout: Layout, *, with_images: bool) -> Mapping[str, str]:
    binaries.ensure(layout, binaries.clients())
    with step("start a kind cluster", long=True):
        kind.ensure(layout)
    return kind.load_images(layout) if with_images else {}


def _record(layout: Layout, choice: sources.Choice, built: Mapping[str, str]) -> Cluster:
    cluster = Cluster(
        source=choice.source,
        kubeconfig=choice.kubeconfig or layout.kubeconfig,
        kubectl=binaries.find_kubectl(layout),
        helm=binaries.find(layout, "helm"),
        images=built or _known_images(layout),
        layout=layout,
    )
    saved = {
        "source": cluster.source.name,
        "kubeconfig": str(cluster.kubeconfig),
        "kubectl": str(cluster.kubectl),
        "helm": str(cluster.helm),
        "images": dict(cluster.images),
    }
    layout.state.mkdir(parents=True, exist_ok=True)
    layout.record.write_text(json.dumps(saved, indent=1) + "\n")
    return cluster


def _given_images() -> Mapping[str, str]:
    """Images that the nodes of an existing cluster can pull: only the user knows."""
    names = {"operator": "KVIS_OPERATOR_IMAGE", "runtime": "KVIS_RUNTIME_IMAGE"}
    missing = [name for name in names.values() if not os.environ.get(name)]
    if missing:
        raise LabError(
            f"on an existing cluster {' and '.join(missing)} must name an image that its nodes can pull"
        )
    return {role: os.environ[name] for role, name in names.items()}


def _known_images(layout: Layout) -> Mapping[str, str]:
    """What an earlier run delivered to the cluster that is still up."""
    if not layout.images.exists():
        return {}
    known: Mapping[str, str] = json.loads(layout.images.read_text())
    return known


@contextmanager
def _one_at_a_time(layout: Layout) -> Iterator[None]:
    with exclusive(layout.state / "lock", what="the lab's start or stop"):
        yield


def _refuse_beside_another(layout: Layout) -> None:
    """A machine has one node: the lab of another checkout must be taken down there first."""
    state = Path(OWNER.read_text().strip()) if OWNER.exists() else layout.state
    other = Layout(state=state, cache=layout.cache)
    if state != layout.state and any(processes.is_running(other, name) for name in processes.names(other)):
        raise LabError(f"the lab of another checkout is up ({state}); run `make lab-down` there first")

"""A node whose pods only pretend to run: for scale and fault tests, never for the demo or the end-to-end
tests.

It registers a Node, keeps its lease, and writes the status of every pod bound to it: Running at once, Ready
after a delay, an own address in 127.0.0.0/8 where a `FakeRuntime` answers. `Behaviour` has the switches for
misbehaviour; a test may give each pod its own, and change it while the pod "runs".
"""

from __future__ import annotations

import asyncio
import signal
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException

from .fake_runtime import FakeRuntime
from .fake_status import Behaviour, Phase, phase_of, pod_status

LABEL: Final = "kvis.dev/fake"
TAINT: Final = {"key": LABEL, "value": "true", "effect": "NoSchedule"}
LEASE_SECONDS: Final = 40
RENEW_SECONDS: Final = 10.0
TICK_SECONDS: Final = 0.2
FIRST_SUBNET: Final = 10  # pods get 127.<subnet>.x.y; nodes that run at once must not share a subnet
LANES: Final = 16  # nodes in different lanes never do
SUBNETS_OF_LANE: Final = 15
CAPACITY: Final = {"cpu": "1000", "memory": "4Ti", "pods": "500", "ephemeral-storage": "4Ti"}

BehaviourOf = Callable[[dict[str, Any]], Behaviour]
"""Chooses the behaviour of a pod from its manifest, once, when the pod is first seen."""


@dataclass(slots=True)
class FakePod:
    """One pod on the node. Change `behaviour` or `runtime` at any time."""

    name: str
    namespace: str
    uid: str
    runtime: FakeRuntime
    behaviour: Behaviour
    started: float  # loop time
    ended: float | None = None  # loop time of the deletion request
    restarts: int = 0
    shown: Phase | None = None
    manifest: dict[str, Any] = field(default_factory=dict)


class FakeNode:
    """Use as `async with FakeNode(api_client) as node`; `node.pods` maps names to pretended pods.

    Its taint keeps every other pod off; `placement` is what a pod needs to land here and nowhere else.
    """

    def __init__(
        self,
        api: client.ApiClient,
        name: str = "fake-0",
        *,
        lane: int = 0,
        behaviour: BehaviourOf | None = None,
    ) -> None:
        self.name, self.pods = name, dict[str, FakePod]()
        self._core, self._leases = client.CoreV1Api(api), client.CoordinationV1Api(api)
        self._behaviour = behaviour or (lambda _: Behaviour())
        row = zlib.crc32(name.encode()) % SUBNETS_OF_LANE
        self._subnet, self._next_address = FIRST_SUBNET + row * LANES + lane % LANES, 1
        self._tasks: list[asyncio.Task[None]] = []
        self._runtimes: list[FakeRuntime] = []  # all that may hold a socket

    async def __aenter__(self) -> Self:
        await self._register()
        self._tasks = [asyncio.create_task(self._renew()), asyncio.create_task(self._run_pods())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(ApiException):
            await self._core.delete_node(self.name)  # first: what replaces the pods must not land here again
        for pod in list(self.pods.values()):
            await self._finish(pod)
        for runtime in self._runtimes:  # of pods that were being admitted or removed when the tasks ended
            await runtime.stop()
        for failure in ended:
            if isinstance(failure, Exception):
                raise failure

    @property
    def placement(self) -> dict[str, Any]:
        """The `nodeSelector` and `tolerations` of a pod spec (or a profile) that bind pods to this node."""
        return {
            "nodeSelector": {"kubernetes.io/hostname": self.name},
            "tolerations": [{"key": LABEL, "operator": "Exists"}],
        }

    def runtime(self, pod: str) -> FakeRuntime:
        """The server behind a pod, by the pod's name."""
        return self.pods[pod].runtime

    async def _register(self) -> None:
        node = {
            "metadata": {"name": self.name, "labels": {LABEL: "true", "kubernetes.io/hostname": self.name}},
            "spec": {"taints": [TAINT]},
        }
        with suppress(ApiException):
            await self._core.delete_node(self.name)  # a run that was killed may have left it
        await self._core.create_node(node)
        await self._put_lease()
        ready = {"type": "Ready", "status": "True", "reason": "FakeNode", "lastHeartbeatTime": _now()}
        status = {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [ready]}
        await self._core.patch_node_status(self.name, {"status": status})

    async def _renew(self) -> None:
        """Without a fresh lease the controller manager would call the node lost and evict its pods."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(ApiException, OSError, TimeoutError):
                await self._put_lease()

    async def _put_lease(self) -> None:
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _now_micro()}
        body = {"metadata": {"name": self.name}, "spec": spec}
        try:
            await self._leases.patch_namespaced_lease(self.name, "kube-node-lease", body)
        except ApiException as error:
            if error.status != 404:
                raise
            await self._leases.create_namespaced_lease("kube-node-lease", body)

    async def _run_pods(self) -> None:
        """Look at the pods bound here several times a second: level-based, so nothing is missed for long."""
        selector = f"spec.nodeName={self.name}"
        while True:
            with suppress(ApiException, OSError, TimeoutError):
                answer = await self._core.list_pod_for_all_namespaces_without_preload_content(
                    field_selector=selector, resource_version="0"
                )
                await self._reconcile((await answer.json())["items"])
            await asyncio.sleep(TICK_SECONDS)

    async def _reconcile(self, manifests: list[dict[str, Any]]) -> None:
        alive = {manifest["metadata"]["uid"] for manifest in manifests}
        for pod in [pod for pod in self.pods.values() if pod.uid not in alive]:
            await self._remove(pod)
        for manifest in manifests:
            pod = self.pods.get(manifest["metadata"]["name"]) or await self._admit(manifest)
            await self._advance(pod, manifest)

    async def _admit(self, manifest: dict[str, Any]) -> FakePod:
        runtime = FakeRuntime(self._new_address())
        self._runtimes.append(runtime)
        await runtime.start()
        meta = manifest["metadata"]
        pod = FakePod(
            name=meta["name"],
            namespace=meta["namespace"],
            uid=meta["uid"],
            runtime=runtime,
            behaviour=self._behaviour(manifest),
            started=asyncio.get_running_loop().time(),
            manifest=manifest,
        )
        self.pods[pod.name] = pod
        return pod

    async def _advance(self, pod: FakePod, manifest: dict[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        if manifest["metadata"].get("deletionTimestamp"):
            pod.ended = now if pod.ended is None else pod.ended
            pod.runtime.ready = False
            if now - pod.ended >= pod.behaviour.ends_after:
                await self._finish(pod)
                return
        restarts = pod.behaviour.restarts(now - pod.started)
        phase = phase_of(pod.behaviour, now - pod.started, ending=pod.ended is not None)
        if phase == pod.shown and restarts == pod.restarts:
            return
        pod.restarts = restarts
        pod.runtime.ready = phase is Phase.READY
        status = pod_status(manifest, phase, address=pod.runtime.address, restarts=restarts, now=_now())
        await self._core.patch_namespaced_pod_status(pod.name, pod.namespace, {"status": status})
        pod.shown = phase

    async def _finish(self, pod: FakePod) -> None:
        with suppress(ApiException):
            await self._core.delete_namespaced_pod(
                pod.name, pod.namespace, body=client.V1DeleteOptions(grace_period_seconds=0)
            )
        await self._remove(pod)

    async def _remove(self, pod: FakePod) -> None:
        self.pods.pop(pod.name, None)
        await pod.runtime.stop()
        self._runtimes = [other for other in self._runtimes if other is not pod.runtime]

    def _new_address(self) -> str:
        number, self._next_address = self._next_address, self._next_address + 1
        return f"127.{self._subnet}.{number // 250 % 250}.{number % 250 + 1}"


async def run_until_stopped(kubeconfig: Path, *, name: str, ready_after: float) -> None:
    """Keep a fake node until the process is told to end."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    api = await config.new_client_from_config(config_file=str(kubeconfig))
    async with api, FakeNode(api, name, behaviour=lambda _: Behaviour(ready_after=ready_after)):
        await stopped.wait()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _now_micro() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""What the demo sees of the service, through the API server alone so that it works on any cluster.

One look every two seconds: the resource (replicas, golden metrics, decisions) and each pod's own metrics page
through the pod proxy (waiting, live cap). Looks are kept; the summary's histories are read from them.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubernetes.aio import client

from kvis_operator.signals.exposition import parse
from kvis_operator.signals.sample import PodSample

GROUP, VERSION, PLURAL = "kvis.dev", "v1alpha1", "kvinferenceservices"
LOOK_EVERY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Look:
    at: float  # seconds since the demo began
    replicas: int | None
    ready: int
    hit_rate: float | None
    kv_usage: float | None
    waiting: float | None
    caps: Mapping[str, int]  # pod -> live cap
    decision: str


@dataclass(slots=True)
class Watch:
    api: client.ApiClient
    namespace: str
    name: str
    began: float = field(default_factory=time.monotonic)
    looks: list[Look] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(10):
                    self.looks.append(await self.look())
            except (client.ApiException, OSError, TimeoutError):
                pass  # a look that failed is a gap in the table, the next one follows
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def resource(self) -> dict[str, Any]:
        found = await client.CustomObjectsApi(self.api).get_namespaced_custom_object(
            GROUP, VERSION, self.namespace, PLURAL, self.name
        )
        return dict(found)

    async def look(self) -> Look:
        resource = await self.resource()
        status = resource.get("status", {})
        samples = await self._samples()
        cache = status.get("cache", {})
        return Look(
            at=time.monotonic() - self.began,
            replicas=resource["spec"].get("replicas"),
            ready=status.get("readyReplicas", 0) or 0,
            hit_rate=_hit_rate(samples.values()),
            kv_usage=_number(cache.get("kvUsage")),
            waiting=_sum([sample.waiting for sample in samples.values()]),
            caps={pod: each.max_num_active_seqs for pod, each in samples.items() if each.max_num_active_seqs},
            decision=_last_decision(status),
        )

    async def _samples(self) -> dict[str, PodSample]:
        core = client.CoreV1Api(self.api)
        pods = await core.list_namespaced_pod(self.namespace, label_selector=f"kvis.dev/service={self.name}")
        running = [pod.metadata.name for pod in pods.items if pod.status.phase == "Running"]
        pages = await asyncio.gather(*(self._page(core, pod) for pod in running))
        return {pod: parse(page, at=time.time()) for pod, page in zip(running, pages, strict=True) if page}

    async def _page(self, core: client.CoreV1Api, pod: str) -> str | None:
        try:
            name = f"{pod}:8000"
            page = await core.connect_get_namespaced_pod_proxy_with_path(name, self.namespace, "metrics")
        except client.ApiException:
            return None  # not serving yet, or going away
        return str(page)


def _hit_rate(samples: Iterable[PodSample]) -> float | None:
    """Since the pods began; status shows it only for pods with enough requests behind them."""
    pairs = [(each.prefix_hits, each.prefix_queries) for each in samples]
    known = [(hits, queries) for hits, queries in pairs if hits is not None and queries is not None]
    asked = sum(queries for _, queries in known)
    return sum(hits for hits, _ in known) / asked if asked else None


def _number(value: object) -> float | None:
    if isinstance(value, Mapping):
        value = value.get("value")
    return None if value is None else float(str(value))


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _last_decision(status: Mapping[str, Any]) -> str:
    decisions = status.get("decisions") or []
    if not decisions:
        return ""
    newest = max(decisions, key=lambda decision: decision["at"])
    return f"{newest['knob']} {newest['from']}→{newest['to']}: {newest['reason']}"


def replica_history(looks: list[Look]) -> list[tuple[float, int]]:
    """(second, desired replicas) at every change."""
    return _changes([(look.at, look.replicas) for look in looks if look.replicas is not None])


def cap_history(looks: list[Look]) -> list[tuple[float, str, int]]:
    """(second, pod, cap) at every change on a running pod, its first value included."""
    last: dict[str, int] = {}
    history = []
    for look in looks:
        for pod, cap in look.caps.items():
            if last.get(pod) != cap:
                history.append((look.at, pod, cap))
            last[pod] = cap
    return history


def _changes(series: list[tuple[float, int]]) -> list[tuple[float, int]]:
    return [now for before, now in zip([(0.0, -1), *series], series, strict=False) if before[1] != now[1]]

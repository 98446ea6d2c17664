"""What an end-to-end test has at hand: the cluster, a namespace of its own, and patience.

A service of these tests is small: a KV cache that a few long prompts fill, a memory of demand that ends in
seconds. Spec parts are replaced whole, so that a test shows only what matters to it.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from kubernetes.aio import client

import lab
from demo import steps

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Field:
    """What a test has at hand: the cluster, a client, and a namespace of its own."""

    cluster: lab.Cluster
    api: client.ApiClient
    namespace: str

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return steps.kubectl(self.cluster, "--namespace", self.namespace, *arguments, stdin=stdin)

    def apply(self, name: str, **spec: Any) -> None:
        self.create(a_service(name, **spec))

    def create(self, manifest: dict[str, Any]) -> None:
        """Create an object, in this namespace where its kind has one, or change it."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    async def serving(self, name: str) -> str:
        """URL of a service that is Ready."""
        await steps.wait_until_ready(self.api, self.namespace, name)
        return await steps.serving_url(self.api, self.namespace, name)

    async def resource(self, name: str) -> dict[str, Any]:
        objects = client.CustomObjectsApi(self.api)
        found = await objects.get_namespaced_custom_object(
            "kvis.dev", "v1alpha1", self.namespace, "kvinferenceservices", name
        )
        return dict(found)

    async def pods(self, name: str) -> list[Any]:
        core = client.CoreV1Api(self.api)
        found = await core.list_namespaced_pod(self.namespace, label_selector=f"kvis.dev/service={name}")
        return [pod for pod in found.items if pod.metadata.deletion_timestamp is None]


def a_service(name: str, **spec: Any) -> dict[str, Any]:
    """A small service; keyword arguments replace whole parts of its spec."""
    parts: dict[str, Any] = {
        "model": {"uri": "bundled://smollm2-135m", "maxLength": 2048},
        "profile": "cpu-small",
        "kvCache": {"memory": "192Mi", "blockSize": 32},
        "batching": {"maxNumSeqs": 8, "maxNumBatchedTokens": 512},
        "scaling": {"minReplicas": 1, "maxReplicas": 2, "downMemory": "30s"},
    }
    return {
        "apiVersion": "kvis.dev/v1alpha1",
        "kind": "KVInferenceService",
        "metadata": {"name": name},
        "spec": parts | spec,
    }


async def eventually(
    what: str, check: Callable[[], Awaitable[bool]], *, seconds: float, every: float = POLL_SECONDS
) -> None:
    """Fails with `what` when the check is not true within the time. API errors count as not yet."""
    deadline = time.monotonic() + seconds
    seen = "false"
    while time.monotonic() < deadline:
        try:
            if await check():
                return
        except (client.ApiException, httpx.HTTPError, OSError) as fault:
            seen = repr(fault)
        await asyncio.sleep(every)
    pytest.fail(f"not within {seconds:.0f} s: {what} (last: {seen})")

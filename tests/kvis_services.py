"""KVInferenceServices of one namespace as a test sees them: made, changed, and waited for through the real API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from service_builders import a_manifest


async def eventually(check: Callable[[], Awaitable[Any]], *, seconds: float, what: str) -> Any:
    """The first true answer of `check`; a failed request counts as not yet."""
    last: object = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    last = await check()
                except (ApiException, aiohttp.ClientError, OSError) as error:
                    last = error
                if last and not isinstance(last, Exception):
                    return last
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}; last seen: {last!r}") from None


@dataclass(slots=True)
class Services:
    """KVInferenceServices of one namespace, as plain dicts, and what belongs to them."""

    kube: client.ApiClient
    namespace: str
    profile: str = "fake"

    @property
    def api(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.kube)

    async def create(self, name: str = "demo", **spec: Any) -> dict[str, Any]:
        manifest = a_manifest(name, namespace=self.namespace, **{"profile": self.profile, **spec})
        del manifest["metadata"]["uid"], manifest["metadata"]["generation"]
        return await self._call("create_namespaced_custom_object", body=manifest)

    async def get(self, name: str = "demo") -> dict[str, Any]:
        return await self._call("get_namespaced_custom_object", name=name)

    async def patch(self, name: str, **spec: Any) -> dict[str, Any]:
        return await self._call("patch_namespaced_custom_object", name=name, body={"spec": spec})

    async def scale(self, name: str, replicas: int) -> None:
        """As `kubectl scale` does it."""
        body = {"spec": {"replicas": replicas}}
        await self._call("patch_namespaced_custom_object_scale", name=name, body=body)

    async def delete(self, name: str = "demo", **options: Any) -> None:
        await self._call("delete_namespaced_custom_object", name=name, **options)

    async def condition(self, name: str, type_: str) -> dict[str, Any]:
        conditions = (await self.get(name)).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == type_), {})

    async def deployment(self, name: str = "demo") -> Any:
        return await client.AppsV1Api(self.kube).read_namespaced_deployment(name, self.namespace)

    async def pods(self, name: str = "demo") -> list[Any]:
        selector = f"kvis.dev/service={name}"
        found = await client.CoreV1Api(self.kube).list_namespaced_pod(self.namespace, label_selector=selector)
        return [pod for pod in found.items if pod.metadata.deletion_timestamp is None]

    async def until(
        self, name: str, type_: str, reason: str, *, seconds: float = 20, status: str | None = None
    ) -> dict[str, Any]:
        """Wait for a condition with this reason."""

        async def seen() -> Any:
            found = await self.condition(name, type_)
            return found if found.get("reason") == reason and status in (None, found["status"]) else None

        return dict(await eventually(seen, seconds=seconds, what=f"{type_} of {name} is {reason}"))

    async def until_replicas(self, name: str, wanted: int, *, seconds: float = 20) -> None:
        """Wait until the field, the Deployment and its ready pods all say `wanted`."""

        async def seen() -> bool:
            field_value = (await self.get(name))["spec"].get("replicas")
            found = await self.deployment(name)
            ready = found.status.ready_replicas or 0
            return field_value == wanted == found.spec.replicas == ready == (found.status.replicas or 0)

        await eventually(seen, seconds=seconds, what=f"{name} has {wanted} replicas")

    async def until_ready(self, name: str = "demo", *, seconds: float = 30) -> None:
        await self.until(name, "Ready", "Ready", seconds=seconds)

    async def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        where = ("kvis.dev", "v1alpha1", self.namespace, "kvinferenceservices")
        if "patch" in method:
            arguments["_content_type"] = "application/merge-patch+json"
        return dict(await getattr(self.api, method)(*where, **arguments))

"""Calls to the API server as plain dicts, each with a timeout; every write passes the fence and is counted.

The only place that sends anything to Kubernetes besides kopf's watches and the lease. It knows verbs and
status codes, never what an object means. Errors:

    KubeError            the server answered with an error: `.status`, `.reason`, `.details`
    UnreachableError     no answer: connection, TLS or time-out
    FenceClosedError     not ours to write (fence.py)
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from kvis_operator.cluster.fence import Fence, FenceClosedError
from kvis_operator.cluster.lease import LeaseLock
from kvis_operator.cluster.resources import Resource

logger = logging.getLogger(__name__)

Manifest = Mapping[str, Any]

FIELD_MANAGER = "kvis"
CALL_SECONDS = 10.0
PAGE = 500

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"


class KubeError(Exception):
    def __init__(self, status: int, reason: str, message: str, details: Manifest) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def is_conflict(self) -> bool:
        """Whether the object has changed since it was read: somebody was faster, and nothing is wrong."""
        return self.status == 409 and self.reason == "Conflict"


class UnreachableError(Exception):
    """No answer from the API server: nothing is known about whether the call had an effect."""


class Kube:
    """One client for reads and fenced writes. `writes` counts what was sent, by (verb, resource)."""

    def __init__(self, api: client.ApiClient, fence: Fence, lock: LeaseLock) -> None:
        self._api = api
        self._fence = fence
        self._lock = lock
        self.writes: Counter[tuple[str, str]] = Counter()

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """The object, or None where there is none."""
        try:
            return await self._call("GET", resource.path(namespace, name))
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def list_all(
        self, resource: Resource, *, namespace: str | None = None, selector: str | None = None
    ) -> tuple[list[Manifest], str]:
        """All objects and the resource version of the listing, page by page."""
        items: list[Manifest] = []
        query = [("limit", str(PAGE))]
        if selector:
            query.append(("labelSelector", selector))
        token = ""
        while True:
            page = await self._call(
                "GET", resource.path(namespace), query + ([("continue", token)] if token else [])
            )
            kind = {"kind": resource.kind, "apiVersion": resource.api_version}
            items += [{**kind, **item} for item in page.get("items") or ()]
            token = page["metadata"].get("continue") or ""
            if not token:
                return items, page["metadata"]["resourceVersion"]

    async def serves(self, resource: Resource, namespace: str | None) -> bool:
        """Whether the API server knows the kind and lets us list it."""
        try:
            await self._call("GET", resource.path(namespace), [("limit", "1")])
        except KubeError as error:
            logger.warning("Cannot list", extra={"resource": resource.plural, "error": str(error)})
            return False
        return True

    async def apply(
        self, resource: Resource, manifest: Manifest, *, force: bool, disruptive: bool = False
    ) -> Manifest:
        """Server-side apply under our field manager; 409 names the fields that others own unless `force`."""
        meta = manifest["metadata"]
        query = [("fieldManager", FIELD_MANAGER), ("force", "true" if force else "false")]
        target = (meta["namespace"], meta["name"], None)
        return await self._write(
            "patch", "PATCH", resource, target, query, manifest, APPLY, disruptive=disruptive
        )

    async def merge(
        self,
        resource: Resource,
        where: tuple[str, str],
        patch: Manifest,
        *,
        subresource: str | None = None,
        disruptive: bool = False,
    ) -> Manifest:
        """Merge-patch (namespace, name); `patch` must carry the resource version it was made for."""
        query = [("fieldManager", FIELD_MANAGER)]
        target = (*where, subresource)
        return await self._write(
            "patch", "PATCH", resource, target, query, patch, MERGE, disruptive=disruptive
        )

    async def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        target = (manifest["metadata"]["namespace"], None, None)
        return await self._write(
            "create", "POST", resource, target, [("fieldManager", FIELD_MANAGER)], manifest, JSON
        )

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> None:
        """Delete exactly the object with `uid`; one that is gone or was replaced is left alone."""
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._write(
                "delete", "DELETE", resource, (namespace, name, None), [], body, JSON, disruptive=True
            )
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    async def _write(
        self,
        verb: str,
        method: str,
        resource: Resource,
        target: tuple[str, str | None, str | None],
        query: list[tuple[str, str]],
        body: Manifest,
        content_type: str,
        *,
        disruptive: bool = False,
    ) -> Manifest:
        self._fence.budget(CALL_SECONDS)
        if disruptive and not await self._lock.is_ours():
            self._fence.revoke()
            raise FenceClosedError("The lease names another holder")
        namespace, name, subresource = target
        plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
        self.writes[verb, plural] += 1
        path = resource.path(namespace, name, subresource)
        return await self._call(
            method, path, query, body, content_type, seconds=self._fence.budget(CALL_SECONDS)
        )

    async def _call(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]] | None = None,
        body: Manifest | None = None,
        content_type: str = JSON,
        *,
        seconds: float = CALL_SECONDS,
    ) -> Manifest:
        headers = {"Accept": JSON, "Content-Type": content_type}
        try:
            async with asyncio.timeout(seconds):
                request = await self._api.param_serialize(
                    method,
                    path,
                    query_params=query or [],
                    header_params=headers,
                    body=body,
                    auth_settings=["BearerToken"],
                )
                response = await self._api.call_api(*request, _request_timeout=seconds)
                text = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError, ApiException) as error:
            raise UnreachableError(f"{method} {path}: {error or type(error).__name__}") from error
        return _answer(response.status, text)


def _answer(status: int, text: bytes) -> Manifest:
    """The object in the answer, or the error that it tells of."""
    try:
        answer = json.loads(text) if text else {}
    except ValueError:
        answer = {"message": text[:200].decode("utf-8", "replace")}
    if not isinstance(answer, dict):
        answer = {"message": str(answer)[:200]}
    if status >= 400:
        reason = answer.get("reason") or str(status)
        raise KubeError(status, reason, answer.get("message", ""), answer.get("details") or {})
    return answer

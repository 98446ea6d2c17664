"""Calls to a server that answers as scripted: errors are told apart, and a closed fence sends nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from kubernetes.aio import client

from kube_objects import OWNER, a_deployment
from kvis_operator.cluster.apply import NameTakenError, carry_out
from kvis_operator.cluster.client import Kube, KubeError, UnreachableError
from kvis_operator.cluster.fence import Fence, FenceClosedError
from kvis_operator.cluster.lease import LeaseLock
from kvis_operator.cluster.resources import DEPLOYMENTS, PODS
from kvis_operator.rollout.children import Apply, ChildrenPlan

CONFLICT = {
    "kind": "Status",
    "reason": "Conflict",
    "message": 'conflict with "kubectl-edit" using apps/v1: .spec.template',
    "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".spec.template"}]},
}
NEWER = {"kind": "Status", "reason": "Conflict", "message": "the object has been modified"}


@dataclass
class Script:
    """Answers in order, each (status, body); the last one is repeated. Keeps what was asked."""

    answers: list[tuple[int, Any]] = field(default_factory=lambda: [(200, {"metadata": {}})])
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path, dict(request.query)))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return (
            web.Response(status=status, text=body)
            if isinstance(body, str)
            else web.json_response(body, status=status)
        )


@dataclass
class Connected:
    kube: Kube
    fence: Fence
    script: Script


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Connected]:
    script = Script()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api = client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}"))
    fence = Fence(lease_seconds=15)
    fence.renew(fence.now())
    lock = LeaseLock(name="l", namespace="ns", identity="me", api=api, fence=fence)
    yield Connected(Kube(api, fence, lock), fence, script)
    await api.close()
    await runner.cleanup()


def changing() -> ChildrenPlan:
    return ChildrenPlan(apply=(Apply(a_deployment(replicas=2), a_deployment(replicas=2)),))


async def test_a_closed_fence_sends_no_write(server: Connected) -> None:
    server.fence.revoke()
    with pytest.raises(FenceClosedError):
        await server.kube.apply(DEPLOYMENTS, a_deployment(), force=False)
    assert server.script.asked == []


async def test_a_closed_fence_still_reads(server: Connected) -> None:
    server.fence.revoke()
    assert await server.kube.get(DEPLOYMENTS, "ns", "demo") == {"metadata": {}}


async def test_a_delete_looks_at_the_live_lease_first_and_a_foreign_holder_stops_it(
    server: Connected,
) -> None:
    server.script.answers = [(200, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "other"}})]
    with pytest.raises(FenceClosedError):
        await server.kube.delete(PODS, "ns", "pod-0", uid="u")
    assert [method for method, _, _ in server.script.asked] == ["GET"]
    assert server.fence.remaining_seconds == 0


async def test_absent_is_none_and_other_errors_are_raised_with_their_status(server: Connected) -> None:
    server.script.answers = [(404, {"reason": "NotFound"}), (403, {"reason": "Forbidden", "message": "no"})]
    assert await server.kube.get(PODS, "ns", "pod-0") is None
    with pytest.raises(KubeError, match="403 Forbidden: no"):
        await server.kube.get(PODS, "ns", "pod-0")


async def test_an_error_page_of_something_in_between_is_an_error_with_its_text(server: Connected) -> None:
    server.script.answers = [(502, "<html>bad gateway</html>")]
    with pytest.raises(KubeError, match="bad gateway"):
        await server.kube.get(PODS, "ns", "pod-0")


async def test_no_server_is_unreachable(server: Connected) -> None:
    api = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    lock = LeaseLock(name="l", namespace="ns", identity="me", api=api, fence=server.fence)
    with pytest.raises(UnreachableError):
        await Kube(api, server.fence, lock).get(PODS, "ns", "pod-0")
    await api.close()


async def test_a_listing_follows_its_pages(server: Connected) -> None:
    first = {"metadata": {"continue": "more", "resourceVersion": "5"}, "items": [{"n": 1}]}
    server.script.answers = [(200, first), (200, {"metadata": {"resourceVersion": "5"}, "items": [{"n": 2}]})]
    items, version = await server.kube.list_all(PODS)
    assert ([item["n"] for item in items], version) == ([1, 2], "5")
    assert server.script.asked[1][2]["continue"] == "more"


async def test_a_field_that_somebody_edited_is_taken_back_by_force_and_told(server: Connected) -> None:
    server.script.answers = [(409, CONFLICT), (200, {"metadata": {}})]
    result = await carry_out(server.kube, changing(), owner_uid=OWNER)
    assert [query["force"] for _, _, query in server.script.asked] == ["false", "true"]
    assert [(change.kind, change.name) for change in result.took_back] == [("Deployment", "demo")]


async def test_an_object_that_has_changed_since_is_never_forced(server: Connected) -> None:
    server.script.answers = [(409, NEWER)]
    with pytest.raises(KubeError):
        await carry_out(server.kube, changing(), owner_uid=OWNER)
    assert len(server.script.asked) == 1


async def test_a_name_that_is_taken_is_found_before_anything_is_written(server: Connected) -> None:
    server.script.answers = [(200, a_deployment(metadata={"ownerReferences": [], "labels": {}}))]
    plan = ChildrenPlan(apply=(Apply(a_deployment(), None),))
    with pytest.raises(NameTakenError, match="Deployment demo exists"):
        await carry_out(server.kube, plan, owner_uid=OWNER)
    assert [method for method, _, _ in server.script.asked] == ["GET"]


async def test_writes_are_counted_by_verb_and_resource(server: Connected) -> None:
    await carry_out(server.kube, changing(), owner_uid=OWNER)
    assert server.kube.writes == {("patch", "deployments"): 1}

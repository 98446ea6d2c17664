"""What the operator asks of the API server is what its access table grants, by the audit log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

import lab
from kvis_operator.cluster.access import RULES
from kvis_services import Services
from lab.fake_node import FakeNode
from operator_process import an_operator, audited

pytestmark = pytest.mark.cluster

GRANTED = {(rule.group, rule.resource, verb) for rule in RULES for verb in rule.verbs}
UNUSED_HERE = {
    # Written only by the chart's option, read always.
    ("networking.k8s.io", "networkpolicies", "get"),
    ("networking.k8s.io", "networkpolicies", "create"),
    ("networking.k8s.io", "networkpolicies", "patch"),
    *{(rule.group, rule.resource, "delete") for rule in RULES if "delete" in rule.verbs},
    # Creating by server-side apply is checked as both: a patch, and a create where nothing is there yet.
    *{(rule.group, rule.resource, "create") for rule in RULES if {"create", "patch"} <= set(rule.verbs)},
}
"""Granted and not shown by this test's log: deletes of children that are no longer rendered, and the above."""


def asked(entry: dict[str, Any]) -> tuple[str, str, str] | None:
    """(group, resource, verb) of an audited request; None for one that names no resource, such as discovery."""
    reference = entry.get("objectRef")
    if not reference or "resource" not in reference:
        return None
    resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
    return reference.get("apiGroup", ""), resource, entry["verb"]


async def test_what_is_granted_is_used_and_nothing_else_is_asked_for(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    fake_node: FakeNode,
    tmp_path: Path,
) -> None:
    services = Services(kube, namespace)
    async with an_operator(cluster, kube, namespace, tmp_path, placement=fake_node.placement) as operator:
        await live_a_little(services)
    await asyncio.sleep(1)
    entries = audited(operator)  # a watch is logged when it ends
    used = {found for entry in entries if (found := asked(entry)) is not None}
    refused = {asked(entry) for entry in entries if entry["responseStatus"]["code"] in (401, 403)}
    assert refused == set()
    assert used <= GRANTED
    assert GRANTED - used <= UNUSED_HERE


async def live_a_little(services: Services) -> None:
    """Created, scaled out and in, so that every kind of write happens."""
    await services.create(scaling={"mode": "Manual"}, replicas=2)
    await services.until_replicas("demo", 2)
    await services.scale("demo", 1)
    await services.until_replicas("demo", 1)
    await services.create("second", scaling={"mode": "Manual"})
    await services.until_ready("second")

"""Fixtures of the tests that need a real API server.

The cluster is the one that `make lab` left up, or is brought up here. When the machine can have none, every
test is skipped with the one reason that says what to install; `.ci/run` counts such skips as a failure.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kubernetes.aio import client, config

import lab
from lab.fake_node import FakeNode


@pytest.fixture(scope="session")
def cluster() -> lab.Cluster:
    """A cluster that answers. Its node may be missing: use `fake_node` for pods."""
    try:
        return lab.current() or lab.up(with_images=False)
    except lab.LabError as error:
        pytest.skip(f"no cluster: {error}")


@pytest_asyncio.fixture
async def kube(cluster: lab.Cluster) -> AsyncIterator[client.ApiClient]:
    """An administrator's client."""
    api = await config.new_client_from_config(config_file=str(cluster.kubeconfig))
    async with api:
        yield api


@pytest_asyncio.fixture
async def namespace(kube: client.ApiClient) -> AsyncIterator[str]:
    """A namespace of the test's own that enforces Pod Security *restricted*; gone afterwards."""
    name = f"kvis-test-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    core = client.CoreV1Api(kube)
    await core.create_namespace({"metadata": {"name": name, "labels": labels}})
    yield name
    await core.delete_namespace(name)


@pytest_asyncio.fixture
async def fake_node(kube: client.ApiClient) -> AsyncIterator[FakeNode]:
    """A node of the test's own whose pods only pretend; `fake_node.placement` draws pods to it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    async with FakeNode(kube, f"fake-{secrets.token_hex(4)}", lane=int(worker)) as node:
        yield node

"""One cluster with real pods and the chart in it for the tier; a namespace and a service for each test."""

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
from kubernetes.aio import config

import lab
from demo import steps
from e2e.field import Field

TICK_SECONDS = 4


@pytest.fixture(scope="session")
def installed() -> Iterator[lab.Cluster]:
    cluster = lab.up()
    if not cluster.has_node:
        pytest.skip("e2e needs a cluster with real pods: root on Debian with Go, kind, or KVIS_KUBECONFIG")
    steps.install_chart(cluster, tick_seconds=TICK_SECONDS)
    yield cluster
    steps.helm(cluster, "uninstall", steps.RELEASE, "--ignore-not-found", "--wait")


@pytest.fixture
async def field(installed: lab.Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Field]:
    name = request.node.name.replace("_", "-").removeprefix("test-")[:45].strip("-")
    # Not the name alone: a run just before may still be leaving.
    namespace = f"e2e-{name}-{secrets.token_hex(2)}"
    steps.make_namespace(installed, namespace)
    api = await config.new_client_from_config(config_file=str(installed.kubeconfig))
    async with api:
        yield Field(cluster=installed, api=api, namespace=namespace)
    # Not waited for: the namespace controller looks again only after half the pods' grace period, over a minute.
    steps.kubectl(installed, "--namespace", namespace, "delete", "kvis", "--all")
    steps.kubectl(installed, "delete", "namespace", namespace, "--wait=false")

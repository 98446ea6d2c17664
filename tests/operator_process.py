"""The operator as a real process against a real API server, with exactly the rights of its access table.

`async with an_operator(...) as operator` starts `kvis operator run` under a service account of the test's
namespace, waits until it is ready and ends it afterwards. Tests look at the cluster as an administrator, and
at what the operator wrote through its metrics and the audit log.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException
from prometheus_client.parser import text_string_to_metric_families

import lab
from api_gate import ApiGate
from free_port import a_free_port
from kvis_operator.cluster.access import role_rules
from kvis_services import eventually
from service_builders import a_profile_document

ROOT = Path(__file__).parent.parent
CRD_FILES = tuple((ROOT / "crds").glob("*.yaml"))
ACCOUNT = "kvis-operator"
READY_SECONDS = 30.0
QUICK = {"tick-seconds": 1, "scrape-seconds": 0.5, "status-seconds": 1, "resync-seconds": 5}
"""Times short enough for a test; everything else as shipped."""


@dataclass(slots=True)
class Operator:
    """A running operator process."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    audit_log: Path | None
    user: str
    command: list[str]
    environment: Mapping[str, str]

    async def text(self, path: str) -> str:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return await answer.text()

    async def metric(self, name: str, **labels: str) -> float:
        """Sum of a series' samples that carry `labels`; 0 when there is none."""
        total = 0.0
        for family in text_string_to_metric_families(await self.text("/metrics")):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    total += sample.value
        return total

    async def writes(self) -> float:
        return await self.metric("kvis_api_writes_total")

    async def leads(self) -> bool:
        with suppress(aiohttp.ClientError, OSError):
            return await self.metric("kvis_leader") == 1.0
        return False

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        self.process.kill()
        await self.ended()

    async def stop(self) -> int:
        """As a kubelet stops it; returns the exit code."""
        self.process.terminate()
        return await self.ended()

    async def ended(self, *, seconds: float = 20) -> int:
        return await asyncio.to_thread(self.process.wait, seconds)

    async def restart(self) -> None:
        """Start it again with the same arguments, after it has ended."""
        self.process = await asyncio.to_thread(_spawn, self.command, self.log, self.environment)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


@asynccontextmanager
async def an_operator(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    folder: Path,
    *,
    placement: Mapping[str, Any] | None = None,
    until_ready: bool = True,
    **flags: Any,
) -> AsyncIterator[Operator]:
    """`placement`: where a fake node wants pods; `flags`: over the quick times, `_` for `-`, and of the start itself
    `account`, `gate` and `environment`."""
    operator = await start_operator(cluster, kube, namespace, folder, placement=placement, **flags)
    try:
        if until_ready:
            await _until_serving(operator)
        yield operator
    except BaseException:
        print(operator.tail())
        raise
    finally:
        operator.send(signal.SIGCONT)
        if operator.process.poll() is None:
            operator.process.terminate()
            try:
                await operator.ended(seconds=15)
            except subprocess.TimeoutExpired:
                operator.process.kill()
                await operator.ended()


async def start_operator(
    cluster: lab.Cluster,
    kube: client.ApiClient,
    namespace: str,
    folder: Path,
    *,
    placement: Mapping[str, Any] | None = None,
    **flags: Any,
) -> Operator:
    await install_crd(kube)
    port = a_free_port()
    account = str(flags.pop("account", ACCOUNT))
    gate: ApiGate | None = flags.pop("gate", None)
    environment: Mapping[str, str] = flags.pop("environment", {})
    kubeconfig = await _kubeconfig(cluster, kube, namespace, folder, account)
    values = {
        **QUICK,
        "namespaces": namespace,
        "namespace": namespace,
        "kubeconfig": gate.through(kubeconfig) if gate else kubeconfig,
        "profiles": _profiles(folder, placement or {}),
        "admin-key": _admin_key(folder),
        "host": "127.0.0.1",
        "port": port,
        **{name.replace("_", "-"): value for name, value in flags.items()},
    }
    command = [sys.executable, "-m", "kvis_operator.cli.main", "operator", "run"]
    command += [f"--{name}={value}" for name, value in values.items() if value is not None]
    log = folder / f"operator-{port}.log"
    process = await asyncio.to_thread(_spawn, command, log, environment)
    user = f"system:serviceaccount:{namespace}:{account}"
    return Operator(process, port, log, cluster.audit_log, user, command, environment)


def _spawn(command: list[str], log: Path, further: Mapping[str, str]) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("operator", "pod_runtime"))
    environment = {**os.environ, "PYTHONPATH": paths, "TZ": "UTC", **further}
    with log.open("ab") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)


async def install_crd(kube: client.ApiClient) -> None:
    """The shipped CRD, server-side applied, and served when this returns."""
    extensions = client.ApiextensionsV1Api(kube)
    for path in CRD_FILES:
        document = yaml.safe_load(path.read_text())
        name = document["metadata"]["name"]
        await extensions.patch_custom_resource_definition(
            name, document, field_manager="test", force=True, _content_type="application/apply-patch+yaml"
        )

        async def established(name: str = name) -> bool:
            found = await extensions.read_custom_resource_definition(name)
            return any(c.type == "Established" and c.status == "True" for c in found.status.conditions or ())

        await eventually(established, seconds=10, what=f"{name} is served")


def audited_writes(operator: Operator, *, namespace: str) -> list[dict[str, Any]]:
    """What the audit log says that this operator's account wrote, leases left out, oldest first."""
    return [
        entry
        for entry in _audit(operator)
        if entry["verb"] not in ("get", "list", "watch")
        and entry.get("objectRef", {}).get("namespace") == namespace
        and entry["objectRef"]["resource"] != "leases"
    ]


def audited(operator: Operator) -> list[dict[str, Any]]:
    """Everything that this operator's account asked of the API server."""
    return list(_audit(operator))


def _audit(operator: Operator) -> Iterator[dict[str, Any]]:
    if operator.audit_log is None:
        pytest.skip("the audit log of an existing cluster is not at hand")
    with operator.audit_log.open() as lines:
        for line in lines:
            if operator.user in line:
                entry = json.loads(line)
                if entry["user"]["username"] == operator.user and entry["stage"] == "ResponseComplete":
                    yield entry


async def _until_serving(operator: Operator) -> None:
    async def serving() -> bool:
        assert operator.process.poll() is None, f"the operator has ended: {operator.tail()}"
        return await operator.text("/readyz") == "ok"

    await eventually(serving, seconds=READY_SECONDS, what="the operator is ready")


async def _kubeconfig(
    cluster: lab.Cluster, kube: client.ApiClient, namespace: str, folder: Path, account: str
) -> Path:
    """Access as a service account that has the rights of the access table and no others."""
    core, rbac = client.CoreV1Api(kube), client.RbacAuthorizationV1Api(kube)
    with suppress(ApiException):
        await core.create_namespaced_service_account(namespace, {"metadata": {"name": account}})
        rules = [*role_rules(own_namespace=False), *role_rules(own_namespace=True)]
        await rbac.create_namespaced_role(namespace, {"metadata": {"name": account}, "rules": rules})
        binding = {
            "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
        await rbac.create_namespaced_role_binding(namespace, binding)
    request = {"spec": {"audiences": [], "expirationSeconds": 7200}}
    answer = await core.create_namespaced_service_account_token(account, namespace, request)
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["users"] = [{"name": account, "user": {"token": answer.status.token}}]
    document["contexts"][0]["context"]["user"] = account
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def _profiles(folder: Path, placement: Mapping[str, Any]) -> Path:
    fake = a_profile_document(
        engines={"torch": {"image": "kvis.dev/none:1"}},
        startSeconds=1,
        cpuRequest="100m",
        nodeSelector=placement.get("nodeSelector"),
        tolerations=placement.get("tolerations"),
    )
    path = folder / "profiles.yaml"
    path.write_text(yaml.safe_dump({"profiles": {"fake": fake, "other": fake}}))
    return path


def _admin_key(folder: Path) -> Path:
    path = folder / "admin.pem"
    if not path.exists():
        path.write_bytes(
            Ed25519PrivateKey.generate().private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    return path

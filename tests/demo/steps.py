"""The steps before the load: cluster, chart, service, first answer. Each is timed and says what it does."""

import asyncio
import json
import pathlib
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from kubernetes.aio import client
from rich.console import Console

from lab import Cluster

HERE = pathlib.Path(__file__).parent
CHART = HERE.parent.parent / "helm" / "kvis"
SYSTEM, RELEASE, NAMESPACE, SERVICE = "kvis-system", "kvis", "kvis-demo", "chat"
MODEL = "smollm2-135m"
TICK_SECONDS = 5  # faster than the chart's 15 s, so that the story fits in minutes
READY_SECONDS = 300.0
ROUTE_SECONDS = 30.0  # for kube-proxy to route a new Service; until then its address leads out of the machine
QUESTION = "What is the capital of France?"


class DemoError(Exception):
    """A step did not reach its goal; the message says which, what was seen and where to look."""


class Steps:
    """Times the steps and prints one line for each."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[None]:
        self._console.print(f"[bold]{name}[/] {what}", highlight=False)
        start = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - start
        self._console.print(f"  done in {self.seconds[name]:.0f} s", highlight=False)


def install_chart(cluster: Cluster, *, tick_seconds: int = TICK_SECONDS, namespace: str = "") -> None:
    """The operator acts in `namespace` alone, or everywhere."""
    operator, runtime = (cluster.images[side].rsplit(":", 1) for side in ("operator", "runtime"))
    values = {
        "image.repository": operator[0],
        "image.tag": operator[1],
        "runtimeImage.repository": runtime[0],
        "runtimeImage.tag": runtime[1],
        "settings.tickSeconds": str(tick_seconds),
    }
    if namespace:
        values["watchNamespaces[0]"] = namespace
    settings = ",".join(f"{key}={value}" for key, value in values.items())
    helm(
        cluster,
        # The resource's definition may be there already, from the cluster tests on the same lab.
        *("upgrade", "--install", RELEASE, str(CHART), "--create-namespace", "--take-ownership"),
        *("--set", settings, "--wait", "--timeout", "180s"),
    )


def uninstall(cluster: Cluster, namespace: str) -> None:
    """Take away the namespace with its services, then the chart. The resource's definition stays, as in any removal."""
    kubectl(cluster, "delete", "namespace", namespace, "--ignore-not-found", "--timeout=180s")
    helm(cluster, "uninstall", RELEASE, "--ignore-not-found", "--wait")


def apply_service(cluster: Cluster) -> None:
    kubectl(cluster, "apply", "--namespace", NAMESPACE, "-f", str(HERE / "service.yaml"))


def make_namespace(cluster: Cluster, name: str) -> None:
    """It enforces Pod Security restricted: what KVIS creates must pass it."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    kubectl(cluster, "apply", "-f", "-", stdin=json.dumps(namespace))


async def wait_until_ready(api: client.ApiClient, namespace: str, name: str) -> None:
    objects = client.CustomObjectsApi(api)
    deadline = time.monotonic() + READY_SECONDS
    conditions: list[dict[str, str]] = []
    while time.monotonic() < deadline:
        service = await objects.get_namespaced_custom_object(
            "kvis.dev", "v1alpha1", namespace, "kvinferenceservices", name
        )
        conditions = service.get("status", {}).get("conditions", [])
        if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            return
        await asyncio.sleep(1)
    said = "; ".join(f"{each['type']}={each['status']} {each.get('message', '')}" for each in conditions)
    raise DemoError(f"the service was not Ready after {READY_SECONDS:.0f} s: {said or 'no condition at all'}")


async def serving_url(api: client.ApiClient, namespace: str, name: str) -> str:
    """The Service's own address, which this machine must reach."""
    service = await client.CoreV1Api(api).read_namespaced_service(name, namespace)
    port = service.spec.ports[0].port
    direct = f"http://{service.spec.cluster_ip}:{port}"
    deadline = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            async with httpx.AsyncClient(timeout=3) as http:
                (await http.get(f"{direct}/health")).raise_for_status()
        except httpx.HTTPError as fault:
            if time.monotonic() > deadline:
                raise DemoError(f"{direct}/health does not answer from this machine: {fault}") from fault
        else:
            return direct
        await asyncio.sleep(0.5)


async def ask(url: str, *, model: str = MODEL) -> str:
    messages = [{"role": "user", "content": QUESTION}]
    body = {"model": model, "messages": messages, "max_tokens": 24, "temperature": 0}
    async with httpx.AsyncClient(timeout=120) as http:
        answer = await http.post(f"{url}/v1/chat/completions", json=body)
    if answer.status_code != httpx.codes.OK:
        raise DemoError(
            f"the first question was answered with HTTP {answer.status_code}: {answer.text[:300]}"
        )
    return str(answer.json()["choices"][0]["message"]["content"])


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    command = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), *arguments]
    return _run(command, f"kubectl {arguments[0]} failed", stdin=stdin)


def helm(cluster: Cluster, *arguments: str) -> str:
    where = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", SYSTEM)
    return _run([str(cluster.helm), *arguments, *where], f"helm {arguments[0]} failed")


def _run(command: list[str], failed: str, *, stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(f"{failed}:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout

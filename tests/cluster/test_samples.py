"""The real API server judges definition and samples: what it takes, what it refuses, in what words."""

import json
import pathlib
import subprocess
from typing import Any

import pytest
import yaml
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

import lab
from kvis_operator.api import crd
from kvis_operator.api.conditions import complete
from kvis_operator.api.status import CacheStatus, Caps, DecisionStatus, KnobBounds, Recommendation, Status
from kvis_operator.api.v1alpha1 import GROUP, PLURAL, VERSION
from kvis_operator.render.objects import render
from service_builders import a_manifest, a_plan, a_service, wanted

pytestmark = pytest.mark.cluster

CRDS = pathlib.Path(__file__).parents[2] / "crds"
VALID = {path.stem: path.read_text() for path in sorted((CRDS / "samples" / "valid").glob("*.yaml"))}
INVALID = {path.stem: path.read_text() for path in sorted((CRDS / "samples" / "invalid").glob("*.yaml"))}
COLUMNS = ["NAME", *(name.upper() for name, _, _ in crd.COLUMNS)]


def _kubectl(cluster: lab.Cluster, *arguments: str, stdin: str | None = None) -> str:
    command = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def definition(cluster: lab.Cluster) -> None:
    """The definition of this source tree, served."""
    _kubectl(
        cluster,
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        str(CRDS / "kvis.dev_kvinferenceservices.yaml"),
    )
    _kubectl(cluster, "wait", "--for=condition=Established", f"crd/{PLURAL}.{GROUP}", "--timeout=30s")


async def _create(
    kube: client.ApiClient, namespace: str, body: dict[str, Any], *, dry: bool = True
) -> dict[str, Any]:
    created: dict[str, Any] = await client.CustomObjectsApi(kube).create_namespaced_custom_object(
        GROUP,
        VERSION,
        namespace,
        PLURAL,
        body,
        field_validation="Strict",
        **({"dry_run": "All"} if dry else {}),
    )
    return created


@pytest.mark.usefixtures("definition")
@pytest.mark.parametrize("name", VALID)
async def test_the_server_accepts_a_valid_sample(kube: client.ApiClient, namespace: str, name: str) -> None:
    created = await _create(kube, namespace, yaml.safe_load(VALID[name]))
    assert created["metadata"]["name"] == name


@pytest.mark.usefixtures("definition")
async def test_the_server_refuses_each_invalid_sample_and_names_the_field(
    kube: client.ApiClient, namespace: str
) -> None:
    wrong = {}
    for name, text in INVALID.items():
        expected = text.splitlines()[0].removeprefix("# refused: ")
        try:
            await _create(kube, namespace, yaml.safe_load(text))
            wrong[name] = "accepted"
        except ApiException as error:
            message = json.loads(error.body)["message"]
            if error.status not in (400, 422) or expected not in message:
                wrong[name] = f"{error.status} {message}"
    assert wrong == {}


@pytest.mark.usefixtures("definition")
async def test_what_the_server_stores_parses_back(kube: client.ApiClient, namespace: str) -> None:
    for text in VALID.values():
        sent = yaml.safe_load(text)
        stored = await _create(kube, namespace, sent)
        assert a_service(**stored["spec"]).spec == a_service(**sent["spec"]).spec


@pytest.mark.usefixtures("definition")
async def test_a_status_of_ours_is_stored_unchanged(kube: client.ApiClient, namespace: str) -> None:
    api = client.CustomObjectsApi(kube)
    await _create(kube, namespace, a_manifest("kept", namespace=namespace), dry=False)
    patch = {"status": _full_status()}
    where = (GROUP, VERSION, namespace, PLURAL, "kept")
    await api.patch_namespaced_custom_object_status(
        *where, patch, _content_type="application/merge-patch+json"
    )
    stored = await api.get_namespaced_custom_object(*where)
    assert stored["status"] == patch["status"]


@pytest.mark.usefixtures("definition")
async def test_the_scale_subresource_shows_replicas_and_selector(
    cluster: lab.Cluster, kube: client.ApiClient, namespace: str
) -> None:
    await _create(kube, namespace, a_manifest("scaled", namespace=namespace, replicas=2), dry=False)
    _kubectl(cluster, "scale", "-n", namespace, "kvis/scaled", "--replicas=3")
    columns = _kubectl(cluster, "get", "-n", namespace, "kvis", "scaled").splitlines()[0].split()
    assert columns == COLUMNS
    scale = await client.CustomObjectsApi(kube).get_namespaced_custom_object_scale(
        GROUP, VERSION, namespace, PLURAL, "scaled"
    )
    assert scale["spec"]["replicas"] == 3


@pytest.mark.parametrize("case", ["bundled", "claim"])
async def test_a_rendered_pod_is_admitted_where_restricted_is_enforced(
    kube: client.ApiClient, namespace: str, case: str
) -> None:
    service = a_service() if case == "bundled" else a_service(model={"uri": "pvc://models/tiny"})
    template = render(wanted(service))[-1]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "x", **template["metadata"]}}
    created = await client.CoreV1Api(kube).create_namespaced_pod(
        namespace, pod, dry_run="All", field_validation="Strict"
    )
    assert created.metadata.name == "x"


async def test_every_rendered_object_is_accepted(
    kube: client.ApiClient, cluster: lab.Cluster, namespace: str
) -> None:
    objects = [dict(item) for item in render(wanted(operator_namespace="kvis-system"))]
    for item in objects:
        item["metadata"] = {**item["metadata"], "namespace": namespace}
    _kubectl(
        cluster, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-",
        stdin=yaml.safe_dump_all(objects),
    )  # fmt: skip


def _full_status() -> dict[str, Any]:
    status = Status(
        observed_generation=1,
        replicas=2,
        ready_replicas=1,
        selector="kvis.dev/service=kept",
        conditions=list(complete((), generation=1, now=1.8e9)),
        plan=a_plan(a_service()).to_status(),
        cache=CacheStatus(hit_rate=0.0, hit_rate_age_seconds=3, kv_usage=0.5),
        caps=Caps(min=4, max=8, ceiling=16),
        recommendation=Recommendation(replicas=2, reason="Memory"),
        bounds=[KnobBounds(knob="blockSize", min=16)],
        scaler={"windows": [[1, 2.5], [3, None]], "desired": 2},
        tuner={"pod-a": {"cap": 8}},
    )
    decision = DecisionStatus(
        at="2027-01-15T08:00:00Z",
        knob="replicas",
        before="1",
        after="2",
        reason="Memory",
        numbers={"kvUsage": 0.93},
    )
    return status.with_decision(decision).to_dict()

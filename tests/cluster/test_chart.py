"""The chart: what it renders, what it refuses, and that an upgrade keeps what it must. By the real helm."""

import pathlib
import re
import secrets
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

import lab
from kvis_operator.api import crd
from kvis_operator.api.profile import load_profiles
from kvis_operator.cli.settings import load
from kvis_operator.cluster.access import role_rules
from kvis_operator.cluster.runtime_admin import AdminKey
from kvis_operator.render import labels
from pod_security import restricted_violations

pytestmark = pytest.mark.cluster

ROOT = pathlib.Path(__file__).parents[2]
CHART = ROOT / "helm" / "kvis"
GOLDEN = ROOT / "tests" / "golden" / "chart"
KUBERNETES = "1.34"
Template = Callable[..., str]


@pytest.fixture(scope="module")
def template(cluster: lab.Cluster) -> Template:
    """`helm template` of a release `kvis`; arguments are further ones of helm's."""

    def run(*arguments: str) -> str:
        done = _helm(cluster, "template", "kvis", str(CHART), "--namespace", "kvis-system", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def objects(template: Template) -> dict[str, dict[str, Any]]:
    """The default objects by `kind/name`."""
    return _by_name(template())


def _helm(cluster: lab.Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(cluster.helm), *arguments], capture_output=True, text=True, timeout=90, check=False
    )


def _by_name(text: str) -> dict[str, dict[str, Any]]:
    documents = [document for document in yaml.safe_load_all(text) if document]
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in documents}


def _masked(text: str) -> str:
    """Without what differs each time, and without the definition, whose golden file is in `crds/`."""
    text = re.sub(r"private\.pem: \S+", "private.pem: MADE-BY-HELM", text)
    parts = [part for part in text.split("\n---\n") if "kind: CustomResourceDefinition" not in part]
    return "\n---\n".join(parts)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("default", ()),
        ("confined", ("--set", "watchNamespaces={team-a,team-b},replicas=2,networkPolicy.enabled=true")),
    ],
)
def test_the_chart_renders_as_reviewed(
    template: Template, update_golden: bool, name: str, arguments: tuple[str, ...]
) -> None:
    text = _masked(template(*arguments))
    path = GOLDEN / f"{name}.yaml"
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_the_chart_passes_a_strict_lint(cluster: lab.Cluster) -> None:
    done = _helm(cluster, "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_every_object_fits_the_schema_of_kubernetes(objects: dict[str, dict[str, Any]]) -> None:
    for name, document in objects.items():
        if not name.startswith("CustomResourceDefinition/"):
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_definition_is_the_generated_one_and_stays_when_the_chart_goes(
    objects: dict[str, dict[str, Any]],
) -> None:
    installed = objects["CustomResourceDefinition/kvinferenceservices.kvis.dev"]
    assert installed["spec"] == crd.definition()["spec"]
    assert installed["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_samples_are_not_in_the_chart(objects: dict[str, dict[str, Any]]) -> None:
    assert not [name for name in objects if name.startswith("KVInferenceService/")]


def test_the_operators_pod_passes_pod_security_restricted(objects: dict[str, dict[str, Any]]) -> None:
    assert restricted_violations(objects["Deployment/kvis"]["spec"]["template"]["spec"]) == []


def test_network_policies_recognise_the_operators_pods(
    objects: dict[str, dict[str, Any]],
) -> None:
    pod = objects["Deployment/kvis"]["spec"]["template"]["metadata"]
    assert pod["labels"][labels.NAME] == labels.OPERATOR_COMPONENT


def test_the_rights_are_those_of_the_access_table(objects: dict[str, dict[str, Any]]) -> None:
    assert objects["ClusterRole/kvis"]["rules"] == role_rules(own_namespace=False)
    assert objects["Role/kvis"]["rules"] == role_rules(own_namespace=True)


def _granted(objects: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for document in objects.values():
        for rule in document.get("rules") or []:
            yield from ((resource, verb) for resource in rule["resources"] for verb in rule["verbs"])


def test_no_right_is_a_wildcard_a_secret_a_role_or_an_exec(objects: dict[str, dict[str, Any]]) -> None:
    granted = set(_granted(objects))
    assert granted
    words = {word for pair in granted for word in pair}
    forbidden = (
        "*",
        "secrets",
        "roles",
        "clusterroles",
        "pods/exec",
        "pods/attach",
        "escalate",
        "bind",
        "impersonate",
    )
    assert words.isdisjoint(forbidden)


def test_people_are_never_given_the_status(objects: dict[str, dict[str, Any]]) -> None:
    edit = objects["ClusterRole/kvis-edit"]["rules"]
    assert "kvinferenceservices/status" not in [resource for rule in edit for resource in rule["resources"]]


def test_named_namespaces_confine_the_rights(template: Template) -> None:
    confined = _by_name(template("--set", "watchNamespaces={team-a}"))
    assert "ClusterRoleBinding/kvis" not in confined
    assert confined["RoleBinding/kvis"]["metadata"]["namespace"] == "team-a"


def _configuration(objects: dict[str, dict[str, Any]]) -> dict[str, str]:
    data: dict[str, str] = objects["ConfigMap/kvis"]["data"]
    return data


def test_the_operator_reads_the_settings(objects: dict[str, dict[str, Any]], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(_configuration(objects)["settings.yaml"])
    settings = load(path, {})
    assert (settings.tick_seconds, settings.manual_hold_seconds, settings.lease_name) == (15, 600, "kvis")
    mounts = objects["Deployment/kvis"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    folders = {mount["mountPath"] for mount in mounts}
    assert {str(settings.profiles.parent), str(settings.admin_key and settings.admin_key.parent)} <= folders


def test_the_operator_reads_the_profiles(objects: dict[str, dict[str, Any]]) -> None:
    profile = load_profiles(_configuration(objects)["profiles.yaml"]).profiles["cpu-small"]
    assert [offer.image for offer in profile.engines.values()] == ["kvis/runtime:0.1.0"]


def test_the_operator_reads_the_key(template: Template, tmp_path: pathlib.Path) -> None:
    encoded = _by_name(template())["Secret/kvis-admin-key"]["data"]["private.pem"]
    path = tmp_path / "private.pem"
    path.write_bytes(yaml.safe_load(f"!!binary {encoded}"))
    assert "PUBLIC KEY" in AdminKey.load(path).public_pem


def test_a_digest_wins_over_a_tag(template: Template) -> None:
    digest = f"sha256:{'0' * 64}"
    values = (
        f"image.registry=registry.example,image.tag=v9,image.digest={digest},runtimeImage.digest={digest}"
    )
    rendered = template("--set", values)
    assert f'image: "registry.example/kvis/operator@{digest}"' in rendered
    assert f"image: kvis/runtime@{digest}" in rendered


def test_an_existing_key_is_mounted_and_none_is_made(template: Template) -> None:
    documents = _by_name(template("--set", "adminKey.existingSecret=mine"))
    assert "Secret/kvis-admin-key" not in documents
    volumes = documents["Deployment/kvis"]["spec"]["template"]["spec"]["volumes"]
    assert {"secretName": "mine", "defaultMode": 0o440} in [volume.get("secret") for volume in volumes]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ("bogus=1", "bogus"),
        ("settings.tickSecond=5", "tickSecond"),
        ("settings.tickSeconds=0", "tickSeconds"),
        ("replicas=0", "replicas"),
        ("image.tag=latest", "/image/tag"),
        ("profiles.cpu-small.memori=1Gi", "memori"),
        ("profiles.cpu-small.memory=much", "/profiles/cpu-small/memory"),
        ("profiles.cpu-small.engines.torch.kvDtypes={int3}", "kvDtypes"),
        ("profiles.x.cpu=1", "/profiles/x"),
        ("watchNamespaces={Team}", "watchNamespaces"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(cluster: lab.Cluster, values: str, named: str) -> None:
    done = _helm(cluster, "template", "kvis", str(CHART), "--set", values)
    assert done.returncode != 0
    assert named in done.stderr


def test_an_upgrade_keeps_the_admin_key(cluster: lab.Cluster, namespace: str) -> None:
    release = f"key-{secrets.token_hex(3)}"
    values = "crds.enabled=false,rbac.create=false,image.repository=kvis.dev/none,image.tag=v1"
    where = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace)
    keys = []
    for tick in (15, 20):
        done = _helm(
            cluster, "upgrade", "--install", release, str(CHART), *where,
            "--set", f"{values},settings.tickSeconds={tick}",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        manifest = _helm(cluster, "get", "manifest", release, *where).stdout
        keys.append(_by_name(manifest)[f"Secret/{release}-kvis-admin-key"]["data"]["private.pem"])
    assert keys[0] == keys[1]
    assert _helm(cluster, "uninstall", release, *where).returncode == 0

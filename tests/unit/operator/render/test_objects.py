import kubernetes_validate
import pytest

from kvis_operator.render import labels
from kvis_operator.render.objects import render
from service_builders import a_service, wanted

KUBERNETES = "1.34"


def _rendered(**changes: object) -> dict[str, dict[str, object]]:
    return {item["kind"]: item for item in render(wanted(operator_namespace="kvis-system", **changes))}  # type: ignore[arg-type]


def test_a_service_owns_one_of_each_kind() -> None:
    assert list(_rendered()) == ["ConfigMap", "Service", "NetworkPolicy", "PodDisruptionBudget", "Deployment"]


def test_without_the_operators_namespace_there_is_no_network_policy() -> None:
    assert "NetworkPolicy" not in {item["kind"] for item in render(wanted())}


@pytest.mark.parametrize("kind", list(_rendered()))
def test_every_object_fits_the_schema_of_kubernetes(kind: str) -> None:
    kubernetes_validate.validate(_rendered()[kind], KUBERNETES, strict=True)


@pytest.mark.parametrize("kind", list(_rendered()))
def test_every_object_goes_with_its_service(kind: str) -> None:
    metadata = _rendered()[kind]["metadata"]
    assert metadata["namespace"] == "team"  # type: ignore[index]
    assert metadata["labels"] == labels.labels("demo")  # type: ignore[index]
    assert metadata["ownerReferences"] == [  # type: ignore[index]
        {
            "apiVersion": "kvis.dev/v1alpha1",
            "kind": "KVInferenceService",
            "name": "demo",
            "uid": "0f0e",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_rendering_twice_gives_the_same() -> None:
    assert render(wanted()) == render(wanted())


def test_clients_reach_the_public_port_alone() -> None:
    spec = _rendered()["Service"]["spec"]
    assert [port["port"] for port in spec["ports"]] == [8000]  # type: ignore[index]


def test_only_the_operator_reaches_the_admin_port() -> None:
    ingress = _rendered()["NetworkPolicy"]["spec"]["ingress"]  # type: ignore[index]
    admin = next(rule for rule in ingress if rule["ports"][0]["port"] == 8001)
    assert admin["from"][0]["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "kvis-system"
    }


def test_evictions_take_one_pod_at_a_time_at_any_number_of_replicas() -> None:
    assert _rendered()["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1  # type: ignore[index]


def test_the_config_map_holds_the_public_key_alone() -> None:
    assert _rendered()["ConfigMap"]["data"] == {"public.pem": "PUBLIC KEY\n"}


def test_the_longest_service_name_still_gives_names_that_fit() -> None:
    names = [item["metadata"]["name"] for item in render(wanted(a_service("a" * 63)))]
    assert all(len(name) <= 63 for name in names)
    assert len({(item["kind"], name) for item, name in zip(render(wanted()), names, strict=True)}) == len(
        names
    )


def test_two_services_never_share_a_derived_name() -> None:
    twins = [a_service("a" * 62 + end) for end in "bc"]
    names = [
        item["metadata"]["name"]
        for twin in twins
        for item in render(wanted(twin))
        if item["kind"] == "ConfigMap"
    ]
    assert len(set(names)) == 2

from typing import Any

import pytest

from kvis_kv import flags
from kvis_operator.render.arguments import SHUTDOWN_SECONDS
from kvis_operator.render.objects import render
from pod_security import restricted_violations
from service_builders import a_profile, a_service, wanted


def _deployment(**changes: Any) -> dict[str, Any]:
    return render(wanted(**changes))[-1]


def _pod(**changes: Any) -> dict[str, Any]:
    pod: dict[str, Any] = _deployment(**changes)["spec"]["template"]["spec"]
    return pod


def _container(**changes: Any) -> dict[str, Any]:
    container: dict[str, Any] = _pod(**changes)["containers"][0]
    return container


def test_the_wanted_replicas_are_in_it() -> None:
    assert _deployment(replicas=3)["spec"]["replicas"] == 3


def test_a_pod_passes_pod_security_restricted() -> None:
    assert restricted_violations(_pod()) == []
    assert _container()["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_pod_has_no_token_of_the_api_server() -> None:
    assert _pod()["automountServiceAccountToken"] is False


def test_the_selector_picks_the_pods() -> None:
    spec = _deployment()["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_a_new_pod_comes_up_before_an_old_one_goes() -> None:
    assert _deployment()["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_without_room_for_one_more_an_old_pod_goes_first() -> None:
    strategy = _deployment(profile=a_profile(surge=False))["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}


def test_a_pod_has_longer_to_end_than_its_streams_have() -> None:
    assert _pod()["terminationGracePeriodSeconds"] > SHUTDOWN_SECONDS
    assert f"{flags.SHUTDOWN_TIMEOUT}={SHUTDOWN_SECONDS}" in _container()["args"]


def test_the_runtime_learns_its_own_uid() -> None:
    assert {
        "name": flags.POD_UID_ENV,
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}},
    } in _container()["env"]


def test_shared_memory_is_memory() -> None:
    volumes = {volume["name"]: volume for volume in _pod()["volumes"]}
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"


def test_the_public_key_lies_where_the_runtime_is_told_to_look() -> None:
    mounts = {mount["mountPath"]: mount for mount in _container()["volumeMounts"]}
    assert flags.ADMIN_PUBLIC_KEY_PATH.rpartition("/")[0] in mounts
    assert f"{flags.ADMIN_PUBLIC_KEY}={flags.ADMIN_PUBLIC_KEY_PATH}" in _container()["args"]


def test_liveness_waits_for_the_first_readiness() -> None:
    container = _container()
    assert container["startupProbe"]["httpGet"]["path"] == "/ready"
    assert (
        container["readinessProbe"]["httpGet"]["path"],
        container["livenessProbe"]["httpGet"]["path"],
    ) == (
        "/ready",
        "/health",
    )


@pytest.mark.parametrize(("expected", "budget"), [(45, 600), (300, 1500)])
def test_a_slow_start_has_five_times_what_the_profile_expects(expected: int, budget: int) -> None:
    probe = _container(profile=a_profile(startSeconds=expected))["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == budget


def test_a_saturated_pod_may_answer_a_probe_late() -> None:
    probe = _container()["livenessProbe"]
    assert probe["timeoutSeconds"] >= 10
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 60


def test_a_bundled_model_needs_no_volume() -> None:
    assert "model" not in {volume["name"] for volume in _pod()["volumes"]}


def test_a_claim_is_mounted_read_only() -> None:
    service = a_service(model={"uri": "pvc://models/llama"})
    volumes = {volume["name"]: volume for volume in _pod(service=service)["volumes"]}
    assert volumes["model"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    mounts = {mount["name"]: mount for mount in _container(service=service)["volumeMounts"]}
    assert mounts["model"] == {"name": "model", "mountPath": "/models/pvc", "readOnly": True}


def test_placement_comes_from_the_profile() -> None:
    profile = a_profile(
        nodeSelector={"pool": "inference"},
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    )
    pod = _pod(profile=profile)
    assert pod["nodeSelector"] == {"pool": "inference"}
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_accelerators_are_asked_for() -> None:
    profile = a_profile(accelerator={"resource": "nvidia.com/gpu", "count": 2, "memory": "80Gi"})
    assert _container(profile=profile)["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_cpu_is_set_aside_as_the_profile_says() -> None:
    resources = _container()["resources"]
    assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == ("250m", "2")

"""The Deployment of a service: pods that pass Pod Security *restricted*, whatever the resource says.

The resource reaches a pod only through typed argv elements, the profile through resources and placement.
New pods come up before old ones go (unless the profile has no room for it), and a pod has time to finish
its streams.
"""

import math
from typing import Any, Final

from kvis_kv import flags
from kvis_operator.api.profile import Profile
from kvis_operator.api.quantity import format_bytes, format_cpu
from kvis_operator.api.v1alpha1 import KVInferenceService
from kvis_operator.render.arguments import SHUTDOWN_SECONDS, arguments
from kvis_operator.render.fingerprint import fingerprint
from kvis_operator.render.labels import ADMIN_KEY_ROLE, FINGERPRINT, child_name, labels, selector
from kvis_operator.render.owner import child_metadata
from kvis_operator.sizing.plan import Plan

CONTAINER: Final = "runtime"
USER: Final = 10001
GRACE_SECONDS: Final = (
    SHUTDOWN_SECONDS + 30
)  # endpoints take some seconds to forget a pod, the process to end
_PROBE_PERIOD: Final = 5
# A saturated replica answers late and is still the one to keep: only a long silence counts.
_PROBE_TIMEOUT: Final = 10
_START_BUDGET: Final = (600.0, 5.0)  # at least ten minutes, and five times what the profile expects
_SHM_LIMIT: Final = "256Mi"
_TMP_LIMIT: Final = "1Gi"
_CLAIM_PATH: Final = f"{flags.MODELS_ROOT}/pvc"


def render_deployment(
    service: KVInferenceService, plan: Plan, profile: Profile, *, replicas: int
) -> dict[str, Any]:
    mark = {FINGERPRINT: fingerprint(service.spec, profile)}
    name = service.metadata.name
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(service) | {"annotations": dict(mark)},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": _start_budget_seconds(profile) + 60,
            "selector": {"matchLabels": selector(name)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(profile)},
            "template": {
                "metadata": {"labels": labels(name), "annotations": mark},
                "spec": _pod_spec(service, plan, profile),
            },
        },
    }


def _rolling_update(profile: Profile) -> dict[str, int]:
    if profile.surge:
        return {"maxUnavailable": 0, "maxSurge": 1}
    return {"maxUnavailable": 1, "maxSurge": 0}


def _pod_spec(service: KVInferenceService, plan: Plan, profile: Profile) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(service, plan, profile)],
        "volumes": _volumes(service),
        "topologySpreadConstraints": [_spread(service.metadata.name)],
    }
    if profile.node_selector:
        spec["nodeSelector"] = dict(profile.node_selector)
    if profile.tolerations:
        spec["tolerations"] = [
            toleration.model_dump(by_alias=True, exclude_unset=True) for toleration in profile.tolerations
        ]
    return spec


def _container(service: KVInferenceService, plan: Plan, profile: Profile) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": plan.image,
        "args": arguments(plan),
        "env": [
            {"name": flags.POD_UID_ENV, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "HOME", "value": "/tmp"},
        ],
        "ports": [
            {"name": "http", "containerPort": flags.PUBLIC_PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": flags.ADMIN_PORT_NUMBER, "protocol": "TCP"},
        ],
        "resources": _resources(plan, profile),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": flags.TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(service),
        **_probes(profile),
    }


def _resources(plan: Plan, profile: Profile) -> dict[str, Any]:
    requests = {
        "cpu": format_cpu(profile.cpu_request_millicores or profile.cpu_millicores),
        "memory": format_bytes(plan.pod_memory_request_bytes),
    }
    limits = {"cpu": format_cpu(profile.cpu_millicores), "memory": format_bytes(plan.pod_memory_limit_bytes)}
    if profile.accelerator:
        devices = {profile.accelerator.resource: str(profile.accelerator.count)}
        requests, limits = requests | devices, limits | devices
    return {"requests": requests, "limits": limits}


def _probes(profile: Profile) -> dict[str, Any]:
    """Liveness waits for the first readiness: a slow load is never taken for a hang."""
    budget = math.ceil(_start_budget_seconds(profile) / _PROBE_PERIOD)
    return {
        "startupProbe": _probe("/ready", failures=budget),
        "readinessProbe": _probe("/ready", failures=3),
        "livenessProbe": _probe("/health", failures=6) | {"periodSeconds": 2 * _PROBE_PERIOD},
    }


def _probe(path: str, *, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": _PROBE_PERIOD,
        "timeoutSeconds": _PROBE_TIMEOUT,
        "failureThreshold": failures,
    }


def _start_budget_seconds(profile: Profile) -> int:
    least, factor = _START_BUDGET
    return math.ceil(max(least, factor * profile.start_seconds))


def _volumes(service: KVInferenceService) -> list[dict[str, Any]]:
    key_map = child_name(service.metadata.name, ADMIN_KEY_ROLE)
    volumes: list[dict[str, Any]] = [
        {"name": "tmp", "emptyDir": {"sizeLimit": _TMP_LIMIT}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": _SHM_LIMIT}},
        # Optional: a pod serves without it and refuses every admin call.
        {"name": "admin-key", "configMap": {"name": key_map, "optional": True}},
    ]
    if service.spec.model.claim:
        claim, _ = service.spec.model.claim
        volumes.append({"name": "model", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
    return volumes


def _mounts(service: KVInferenceService) -> list[dict[str, Any]]:
    key_folder = flags.ADMIN_PUBLIC_KEY_PATH.rpartition("/")[0]
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "admin-key", "mountPath": key_folder, "readOnly": True},
    ]
    if service.spec.model.claim:
        mounts.append({"name": "model", "mountPath": _CLAIM_PATH, "readOnly": True})
    return mounts


def _spread(service: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(service)},
    }

"""Pod Security *restricted*, version 1.34, as a list of what a pod spec violates.

Written from the published standard, for property tests that cannot ask a server a thousand times; the
cluster tier asks the real admission plugin.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

ALLOWED_VOLUMES: Final = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
    "secret",
}  # fmt: skip
HOST_FIELDS: Final = ("hostNetwork", "hostPID", "hostIPC")


def restricted_violations(pod: Mapping[str, Any]) -> list[str]:
    return [*_pod(pod), *(problem for c in _containers(pod) for problem in _container(c, pod))]


def _containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod.get(kind, [])


def _pod(pod: Mapping[str, Any]) -> Iterator[str]:
    yield from (field for field in HOST_FIELDS if pod.get(field))
    context = pod.get("securityContext", {})
    if context.get("sysctls"):
        yield "sysctls"
    for volume in pod.get("volumes", []):
        kinds = set(volume) - {"name"}
        if not kinds <= ALLOWED_VOLUMES:
            yield f"volume {volume['name']}: {kinds - ALLOWED_VOLUMES}"


def _container(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    context = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    name = container["name"]
    if context.get("privileged") or context.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: privilege"
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        yield f"{name}: root"
    if context.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"{name}: seccomp"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"{name}: capabilities"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield f"{name}: host port"
    if context.get("procMount", "Default") != "Default":
        yield f"{name}: procMount"

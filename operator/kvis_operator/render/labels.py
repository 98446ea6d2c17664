"""Names, labels and annotations of everything that belongs to a service. Defined here and nowhere else.

A service's name is a DNS label of at most 63 characters (the CRD sees to it), so it can be the name of its
Deployment, Service, PodDisruptionBudget and NetworkPolicy, one of each kind. Further objects of a kind
carry a role; names that grow too long are cut and end in a hash of the whole, so two services never share
one.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

MANAGER: Final = "kvis"  # also the field manager of server-side apply
COMPONENT: Final = "kvis-runtime"
OPERATOR_COMPONENT: Final = "kvis-operator"

NAME: Final = "app.kubernetes.io/name"
INSTANCE: Final = "app.kubernetes.io/instance"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
SERVICE: Final = "kvis.dev/service"

FINGERPRINT: Final = "kvis.dev/fingerprint"  # annotation: what of the resource reaches the pods, hashed
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

ADMIN_KEY_ROLE: Final = "admin-key"
_NAME_LIMIT: Final = 63
_HASH_DIGITS: Final = 8


def labels(service: str) -> dict[str, str]:
    """Of every object of the service, pods included."""
    return {NAME: COMPONENT, INSTANCE: service, MANAGED_BY: MANAGER, SERVICE: service}


def selector(service: str) -> dict[str, str]:
    """What picks the service's pods. A Deployment's selector can never change, so it is small."""
    return {NAME: COMPONENT, SERVICE: service}


def selector_text(service: str) -> str:
    """The same for `status.selector` and list calls."""
    return as_text(selector(service))


def managed_text() -> str:
    """Selects the objects of every service."""
    return as_text({NAME: COMPONENT, MANAGED_BY: MANAGER})


def as_text(selected: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(selected.items()))


def child_name(service: str, role: str | None = None) -> str:
    """`demo` and `admin-key` -> `demo-admin-key`."""
    full = service if role is None else f"{service}-{role}"
    if len(full) <= _NAME_LIMIT:
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{full[: _NAME_LIMIT - _HASH_DIGITS - 1].rstrip('-')}-{digest}"

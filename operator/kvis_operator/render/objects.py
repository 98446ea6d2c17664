"""Everything that a service owns, as objects to apply, in the order that lets pods start without waiting."""

from dataclasses import dataclass
from typing import Any

from kvis_operator.api.profile import Profile
from kvis_operator.api.v1alpha1 import KVInferenceService
from kvis_operator.render.admin_key import render_admin_key
from kvis_operator.render.deployment import render_deployment
from kvis_operator.render.policy import render_disruption_budget, render_network_policy
from kvis_operator.render.service import render_service
from kvis_operator.sizing.plan import Plan


@dataclass(frozen=True, slots=True)
class Wanted:
    service: KVInferenceService  # with its UID, for the owner reference
    plan: Plan
    profile: Profile
    replicas: int
    public_key_pem: str
    operator_namespace: str | None = None  # None: no NetworkPolicy


def render(wanted: Wanted) -> tuple[dict[str, Any], ...]:
    service = wanted.service
    objects = [render_admin_key(service, wanted.public_key_pem), render_service(service)]
    if wanted.operator_namespace:
        objects.append(render_network_policy(service, operator_namespace=wanted.operator_namespace))
    objects.append(render_disruption_budget(service))
    objects.append(render_deployment(service, wanted.plan, wanted.profile, replicas=wanted.replicas))
    return tuple(objects)

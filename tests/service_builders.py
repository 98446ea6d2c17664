"""Builders of resources and profiles for tests: everything has a default, a test names what it is about."""

from collections.abc import Mapping
from typing import Any

from kvis_operator.api.profile import Profile, ProfileTable
from kvis_operator.api.v1alpha1 import API_VERSION, KIND, KVInferenceService
from kvis_operator.render.objects import Wanted
from kvis_operator.sizing.fit import fit
from kvis_operator.sizing.plan import Infeasible, Plan

MODEL = "bundled://smollm2-135m"


def a_manifest(name: str = "demo", *, namespace: str = "team", **spec: Any) -> dict[str, Any]:
    """`a_manifest(kvCache={"blockSize": 7})`; a `model` that is given replaces the default one."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace, "uid": "0f0e", "generation": 1},
        "spec": {"model": {"uri": MODEL}, "profile": "cpu-small", **spec},
    }


def a_service(name: str = "demo", **spec: Any) -> KVInferenceService:
    return KVInferenceService.parse(a_manifest(name, **spec))


def a_profile_document(**changes: Any) -> dict[str, Any]:
    """As an administrator writes it. A change of None leaves a field out."""
    document: Mapping[str, Any] = {
        "engines": {"torch": {"image": "kvis/runtime:0.1.0"}},
        "cpu": "2",
        "cpuRequest": "250m",
        "memory": "3Gi",
        "kvMemory": "512Mi",
        "models": {"bundled": ["smollm2-135m"], "pvc": True},
        "stepTime": {"a": 0.02, "p": 0.0006, "d": 0.004, "c": 0.000002},
        "startSeconds": 45,
    }
    return {key: value for key, value in {**document, **changes}.items() if value is not None}


def a_profile(**changes: Any) -> Profile:
    return Profile.model_validate(a_profile_document(**changes))


def a_table(**changes: Any) -> ProfileTable:
    return ProfileTable({"cpu-small": a_profile(**changes)})


def a_plan(service: KVInferenceService, table: ProfileTable | None = None) -> Plan:
    plan = fit(service.spec, table or a_table())
    assert isinstance(plan, Plan), plan
    return plan


def a_refusal(table: ProfileTable | None = None, **spec: Any) -> Infeasible:
    refusal = fit(a_service(**spec).spec, table or a_table())
    assert isinstance(refusal, Infeasible), refusal
    return refusal


def wanted(
    service: KVInferenceService | None = None,
    *,
    profile: Profile | None = None,
    replicas: int = 1,
    **changes: Any,
) -> Wanted:
    service, profile = service or a_service(), profile or a_profile()
    plan = a_plan(service, ProfileTable({service.spec.profile: profile}))
    return Wanted(service, plan, profile, replicas, public_key_pem="PUBLIC KEY\n", **changes)

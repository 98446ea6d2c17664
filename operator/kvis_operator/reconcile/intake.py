"""Reading a resource: what is asked, what each replica gets, or why it cannot be done.

Pure. A refusal names the condition that becomes False; the user's fault is never retried blindly, a change
of the resource brings the next look.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kvis_operator.api.conditions import ConditionType, Reason
from kvis_operator.api.errors import SpecInvalid
from kvis_operator.api.profile import Profile, ProfileTable
from kvis_operator.api.v1alpha1 import KVInferenceService
from kvis_operator.sizing.fit import fit
from kvis_operator.sizing.plan import Infeasible, Plan

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Refusal:
    condition: ConditionType
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Accepted:
    service: KVInferenceService
    plan: Plan
    profile: Profile
    warning: str = ""  # fields that were dropped before they reached us


@dataclass(frozen=True, slots=True)
class Refused:
    service: KVInferenceService | None  # None: not even readable
    refusal: Refusal


Subject = Accepted | Refused


def read(body: Mapping[str, Any], profiles: ProfileTable) -> Subject:
    try:
        service = KVInferenceService.parse(body)
    except SpecInvalid as error:
        return Refused(None, Refusal(ConditionType.ACCEPTED, Reason.SPEC_INVALID, str(error)))
    plan = fit(service.spec, profiles)
    profile = profiles.get(service.spec.profile)
    if isinstance(plan, Infeasible) or profile is None:
        return Refused(service, _refusal(plan))
    return Accepted(service, plan, profile, warning=dropped_fields(body))


def dropped_fields(body: Mapping[str, Any]) -> str:
    """Unknown fields that a client sent past its own check; the API server dropped them without a word.

    They can be seen only where the client left its manifest in the annotation of `kubectl apply`.
    """
    text = (body["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        sent = json.loads(text) if text else {}
        KVInferenceService.parse({**body, "spec": sent.get("spec") or body["spec"]})
    except SpecInvalid as error:
        unknown = [
            f"{path}: {message}" for path, message in error.errors if message.startswith("unknown field")
        ]
        return f"Ignored {'; '.join(unknown)}" if unknown else ""
    except (ValueError, AttributeError):
        return ""
    return ""


def _refusal(plan: Plan | Infeasible) -> Refusal:
    if isinstance(plan, Infeasible):
        return Refusal(plan.condition, plan.reason, plan.message)
    raise AssertionError("fit() returned a plan for a profile that is not in the table")

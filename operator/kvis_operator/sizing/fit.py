"""From a resource and the profile table to what each replica gets, or to why nothing fits.

A number that the resource gives is a fixed wish: checked, never changed. The plan is the same for the same
input, so it is made anew at every pass and nothing of it is remembered.
"""

from kvis_kv.models import BUNDLED
from kvis_operator.api.conditions import ConditionType, Reason
from kvis_operator.api.profile import ProfileTable
from kvis_operator.api.quantity import round_up_to_mebibytes
from kvis_operator.api.v1alpha1 import Spec
from kvis_operator.sizing.ask import Ask
from kvis_operator.sizing.checks import CHECKS
from kvis_operator.sizing.plan import Infeasible, Plan


def fit(spec: Spec, profiles: ProfileTable) -> Plan | Infeasible:
    ask = _ask(spec, profiles)
    if isinstance(ask, Infeasible):
        return ask
    refusals = (check(ask) for check in CHECKS)
    return next((refused for refused in refusals if refused), None) or _plan(ask)


def _ask(spec: Spec, profiles: ProfileTable) -> Ask | Infeasible:
    profile = profiles.get(spec.profile)
    if profile is None:
        message = f"profile {spec.profile} does not exist, there are: {', '.join(profiles.names)}"
        return Infeasible(ConditionType.ACCEPTED, Reason.PROFILE_NOT_FOUND, message)
    engine = profile.engine(spec.engine)
    offer = profile.engines.get(engine)
    if offer is None:
        offered = ", ".join(profile.engines)
        message = f"engine {engine} is not offered by profile {spec.profile}, it offers: {offered}"
        return Infeasible(ConditionType.ACCEPTED, Reason.ENGINE_NOT_OFFERED, message)
    name = spec.model.bundled_name
    return Ask(spec, profile, engine, offer, BUNDLED.get(name) if name else None)


def _plan(ask: Ask) -> Plan:
    shape = ask.shape
    capacity = ask.layout(shape).tokens_in(ask.kv_memory_bytes) if shape else None
    weights = ask.weights_bytes(shape) if shape else None
    length = ask.spec.model.max_length
    if shape and not length:
        length = ask.layout(shape).longest_in(ask.kv_memory_bytes)
    return Plan(
        profile=ask.spec.profile,
        engine=ask.engine,
        image=ask.offer.image,
        model_path=ask.model_path,
        served_name=ask.spec.model.api_name,
        dtype=ask.offer.dtype,
        kv_dtype=ask.kv_dtype,
        kv_memory_bytes=ask.kv_memory_bytes,
        block_size=ask.block_size,
        prefix_caching=ask.spec.kv_cache.prefix_caching,
        max_num_seqs=ask.max_num_seqs,
        max_num_batched_tokens=ask.max_num_batched_tokens,
        pod_memory_request_bytes=_pod_request_bytes(ask, weights),
        pod_memory_limit_bytes=ask.profile.memory_bytes,
        kv_capacity_tokens=capacity,
        max_model_len=length,
        weights_bytes=weights,
    )


def _pod_request_bytes(ask: Ask, weights_bytes: int | None) -> int:
    """What the scheduler must set aside; the whole limit where the need is unknown or lies on a device."""
    if ask.shape is None or weights_bytes is None or ask.profile.accelerator:
        return ask.profile.memory_bytes
    return round_up_to_mebibytes(weights_bytes + ask.kv_memory_bytes + ask.working_bytes(ask.shape))

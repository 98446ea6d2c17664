"""Why an ask cannot be met, each check for one reason, in the order a person would fix them.

Every message names the field and a value that would work. To add a rule: one function and one row in CHECKS.
"""

from collections.abc import Callable
from typing import Final

from kvis_kv.models import BUNDLED
from kvis_operator.api.conditions import ConditionType, Reason
from kvis_operator.api.quantity import format_bytes, round_up_to_mebibytes
from kvis_operator.sizing.ask import Ask
from kvis_operator.sizing.plan import Infeasible

_MIB: Final = 2**20


def model_not_allowed(ask: Ask) -> Infeasible | None:
    name, offered = ask.spec.model.bundled_name, ask.profile.models
    if name is None and not offered.pvc:
        message = "model.uri: the profile allows no claims, only bundled models"
    elif name is not None and name not in offered.bundled:
        message = f"model.uri: the profile does not offer bundled://{name}"
    else:
        return None
    allowed = ", ".join(f"bundled://{name}" for name in offered.bundled) or "none"
    return Infeasible(ConditionType.ACCEPTED, Reason.MODEL_NOT_ALLOWED, f"{message}; bundled are: {allowed}")


def model_unknown(ask: Ask) -> Infeasible | None:
    name = ask.spec.model.bundled_name
    if name is None or name in BUNDLED:
        return None
    message = f"model.uri: the runtime carries no {name}, it carries: {', '.join(sorted(BUNDLED))}"
    return Infeasible(ConditionType.SIZED, Reason.MODEL_UNKNOWN, message)


def block_size_unsupported(ask: Ask) -> Infeasible | None:
    sizes = ask.offer.block_sizes
    if ask.block_size in sizes:
        return None
    nearest = min(sizes, key=lambda size: (abs(size - ask.block_size), size))
    message = (
        f"kvCache.blockSize {ask.block_size} cannot be used by engine {ask.engine} on this profile, "
        f"the nearest that can is {nearest} (of {', '.join(map(str, sorted(sizes)))})"
    )
    return Infeasible(ConditionType.SIZED, Reason.BLOCK_SIZE_UNSUPPORTED, message, {"nearest": nearest})


def dtype_unsupported(ask: Ask) -> Infeasible | None:
    dtypes = ask.offer.kv_dtypes
    if ask.kv_dtype in dtypes:
        return None
    message = (
        f"kvCache.dtype {ask.kv_dtype} cannot be stored by engine {ask.engine} on this profile, "
        f"it stores {', '.join(sorted(dtypes))}"
    )
    return Infeasible(ConditionType.SIZED, Reason.DTYPE_UNSUPPORTED, message)


def length_exceeds_model(ask: Ask) -> Infeasible | None:
    if ask.shape is None or ask.least_length <= ask.shape.context:
        return None
    message = (
        f"{_length_name(ask)} {ask.least_length} exceeds what {ask.shape.name} was trained for, "
        f"at most {ask.shape.context} works"
    )
    numbers = {"longest_tokens": ask.shape.context}
    return Infeasible(ConditionType.SIZED, Reason.LENGTH_EXCEEDS_MODEL, message, numbers)


def kv_memory_too_small(ask: Ask) -> Infeasible | None:
    if ask.shape is None:
        return None
    layout = ask.layout(ask.shape)
    longest = layout.longest_in(ask.kv_memory_bytes)
    if longest >= ask.least_length:
        return None
    needed = round_up_to_mebibytes(layout.memory_for(ask.least_length))
    shorter = f"at most {longest} tokens would fit" if longest else "not even one block fits"
    message = (
        f"kvCache.memory {format_bytes(ask.kv_memory_bytes)} holds no sequence of {_length_name(ask)} "
        f"{ask.least_length}: {shorter}, or set kvCache.memory to at least {format_bytes(needed)}"
    )
    numbers = {"longest_tokens": longest, "needed_bytes": needed}
    return Infeasible(ConditionType.SIZED, Reason.KV_MEMORY_TOO_SMALL, message, numbers)


def memory_exceeds_profile(ask: Ask) -> Infeasible | None:
    if ask.shape is None:
        return None
    weights, working = ask.weights_bytes(ask.shape), ask.working_bytes(ask.shape)
    budget = ask.memory_budget_bytes()
    room = budget - weights - working
    if ask.kv_memory_bytes <= room:
        return None
    most = max(room, 0) // _MIB * _MIB
    advice = (
        f"kvCache.memory can be at most {format_bytes(most)}" if most else "use a profile with more memory"
    )
    message = (
        f"weights {_mebibytes(weights)} + KV cache {_mebibytes(ask.kv_memory_bytes)} + working memory "
        f"{_mebibytes(working)} exceed the profile's {_mebibytes(budget)}: {advice}"
    )
    numbers = {"most_bytes": most, "needed_bytes": weights + working + ask.kv_memory_bytes}
    return Infeasible(ConditionType.SIZED, Reason.MEMORY_EXCEEDS_PROFILE, message, numbers)


CHECKS: Final[tuple[Callable[[Ask], Infeasible | None], ...]] = (
    model_not_allowed,
    model_unknown,
    block_size_unsupported,
    dtype_unsupported,
    length_exceeds_model,
    kv_memory_too_small,
    memory_exceeds_profile,
)


def _length_name(ask: Ask) -> str:
    if ask.spec.model.max_length:
        return "model.maxLength"
    return "workload.inputTokens + outputTokens" if ask.expected_tokens else "the least useful length"


def _mebibytes(amount: int) -> str:
    return f"{-(-amount // _MIB)}Mi"

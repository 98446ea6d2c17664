"""Conditions: what is true of a service now, each with one CamelCase reason and a sentence with the numbers.

Pure: `set_condition` returns the new list. lastTransitionTime moves only when the status does, so that an
unchanged service is never written again. Unknown is said as Unknown and never left out.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from kvis_operator.api.fields import StatusModel

MESSAGE_LIMIT: Final = 512  # characters; seven conditions must leave room in an 8 KiB status


class ConditionType(StrEnum):
    READY = "Ready"  # the fewest wanted replicas serve
    ACCEPTED = "Accepted"  # the resource can be acted on
    SIZED = "Sized"  # a plan fits the profile
    ENGINE_HEALTHY = "EngineHealthy"  # no pod fails to start or to run
    METRICS_FRESH = "MetricsFresh"  # deciding sees recent samples of every ready pod
    SCALING_ACTIVE = "ScalingActive"  # KVIS writes the replicas
    TUNING_ACTIVE = "TuningActive"  # KVIS writes the live caps


class Reason(StrEnum):
    """Reasons of conditions; a scaling or tuning decision's own reason may stand there too."""

    UNKNOWN = "NotYetObserved"
    # Accepted
    ACCEPTED = "Accepted"
    SPEC_INVALID = "SpecInvalid"
    PROFILE_NOT_FOUND = "ProfileNotFound"
    ENGINE_NOT_OFFERED = "EngineNotOffered"
    MODEL_NOT_ALLOWED = "ModelNotAllowed"
    NAME_TAKEN = "NameTaken"  # a derived name belongs to an object that is not ours
    # Sized
    SIZED = "Sized"
    MODEL_UNKNOWN = "ModelUnknown"
    MODEL_SHAPE_UNKNOWN = "ModelShapeUnknown"
    LENGTH_EXCEEDS_MODEL = "LengthExceedsModel"
    BLOCK_SIZE_UNSUPPORTED = "BlockSizeUnsupported"
    DTYPE_UNSUPPORTED = "DtypeUnsupported"
    KV_MEMORY_TOO_SMALL = "KVMemoryTooSmall"
    MEMORY_EXCEEDS_PROFILE = "MemoryExceedsProfile"
    # Ready
    READY = "Ready"
    PROGRESSING = "Progressing"
    REPLICAS_UNAVAILABLE = "ReplicasUnavailable"
    NOT_ACCEPTED = "NotAccepted"
    NOT_SIZED = "NotSized"
    SCALED_TO_ZERO = "ScaledToZero"
    # EngineHealthy
    HEALTHY = "Healthy"
    NO_PODS = "NoPods"
    STARTING = "Starting"
    ENGINE_START_FAILED = "EngineStartFailed"
    ENGINE_CRASHING = "EngineCrashing"
    OUT_OF_MEMORY = "OutOfMemory"
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    UNSCHEDULABLE = "Unschedulable"
    VOLUME_UNAVAILABLE = "VolumeUnavailable"
    CREATE_REFUSED = "CreateRefused"
    ADMIN_UNREACHABLE = "AdminUnreachable"
    # MetricsFresh
    FRESH = "Fresh"
    METRICS_STALE = "MetricsStale"
    METRICS_MISSING = "MetricsMissing"
    # ScalingActive, TuningActive
    ACTIVE = "Active"
    MANUAL = "Manual"
    MANUAL_HOLD = "ManualHold"
    RECOMMEND_ONLY = "RecommendOnly"
    EXTERNALLY_SCALED = "ExternallyScaled"
    OFF = "Off"
    PAUSED = "Paused"


ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(StatusModel):
    type: Annotated[str, Field(description="What the condition is about.", max_length=64)]
    status: Annotated[ConditionStatus, Field(description="True, False or Unknown.")]
    reason: Annotated[
        str,
        Field(description="Why, in one CamelCase word.", max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9]*$"),
    ]
    message: Annotated[str, Field(description="Why, in words and numbers.", max_length=MESSAGE_LIMIT)] = ""
    last_transition_time: Annotated[str, Field(description="When the status last changed.", max_length=32)]
    observed_generation: Annotated[
        int, Field(description="Generation of the resource that this was judged by.", ge=0, le=2**53)
    ]


def timestamp(at: float) -> str:
    """RFC 3339 in UTC, whole seconds, as Kubernetes writes times. `at` is Unix seconds."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def set_condition(
    conditions: Sequence[Condition],
    type_: ConditionType,
    status: bool | None,
    reason: StrEnum,
    message: str = "",
    *,
    generation: int,
    now: float,
) -> tuple[Condition, ...]:
    """The list with one condition replaced or added, in ConditionType's order. `status` None is Unknown."""
    text: ConditionStatus = "Unknown" if status is None else "True" if status else "False"
    before = find_condition(conditions, type_)
    changed = before is None or before.status != text
    condition = Condition(
        type=type_.value,
        status=text,
        reason=reason.value,
        message=_clipped(message),
        last_transition_time=timestamp(now) if changed or before is None else before.last_transition_time,
        observed_generation=generation,
    )
    return _ordered([c for c in conditions if c.type != type_.value] + [condition])


def complete(conditions: Sequence[Condition], *, generation: int, now: float) -> tuple[Condition, ...]:
    """Every known condition, those never judged as Unknown: readers may rely on each being there."""
    result = tuple(conditions)
    for type_ in ConditionType:
        if find_condition(result, type_) is None:
            result = set_condition(result, type_, None, Reason.UNKNOWN, generation=generation, now=now)
    return result


def find_condition(conditions: Iterable[Condition], type_: ConditionType) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_.value), None)


def _ordered(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    order = {type_.value: place for place, type_ in enumerate(ConditionType)}
    return tuple(
        sorted(conditions, key=lambda condition: (order.get(condition.type, len(order)), condition.type))
    )


def _clipped(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"

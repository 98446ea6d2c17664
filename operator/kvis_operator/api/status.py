"""`status` of the resource: what KVIS saw, planned, decided and remembers. Written only by the operator.

At most 8 KiB as JSON. When the parts do not fit, the oldest decisions go first, then the remembered state
of tuning and scaling: a lost state counts as unknown and shrinks nothing. Measured values are None until
observed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field, JsonValue, ValidationError

from kvis_operator.api.conditions import Condition
from kvis_operator.api.fields import StatusModel

MAX_BYTES: Final = 8192
MAX_DECISIONS: Final = 10
_DIGITS: Final = 3  # of ratios: finer changes are not worth a write
_MAX_INT: Final = 2**53
_PRESERVE: Final[dict[str, JsonValue]] = {"x-kubernetes-preserve-unknown-fields": True}
_BY_TYPE: Final[dict[str, JsonValue]] = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}

Count = Annotated[int, Field(ge=0, le=_MAX_INT)]
Time = Annotated[str, Field(max_length=32)]
Name = Annotated[str, Field(max_length=253)]


class PlanStatus(StatusModel):
    """What sizing settled on for each replica."""

    profile: Annotated[Name, Field(description="Hardware profile the plan rests on.")]
    engine: Annotated[str, Field(description="Serving engine.", max_length=32)]
    kv_memory: Annotated[str, Field(description="Memory of the KV cache.", max_length=24)]
    kv_dtype: Annotated[str, Field(description="Number format of cached keys and values.", max_length=32)]
    block_size: Annotated[Count, Field(description="Tokens per KV block.")]
    kv_capacity_tokens: Annotated[Count | None, Field(description="Tokens that the KV cache holds.")] = None
    max_num_seqs: Annotated[Count, Field(description="Ceiling of running sequences.")]
    max_num_batched_tokens: Annotated[Count, Field(description="Most tokens in one engine step.")]
    max_model_len: Annotated[Count | None, Field(description="Longest sequence in tokens.")] = None
    pod_memory: Annotated[str, Field(description="Memory of the pod.", max_length=24)]


class CacheStatus(StatusModel):
    """The three golden metrics over the service, each with the age of what it rests on."""

    hit_rate: Annotated[
        float | None, Field(description="Prompt tokens found in the cache, 0 to 1.", ge=0, le=1)
    ] = None
    hit_rate_age_seconds: Annotated[Count | None, Field(description="Age of hitRate.")] = None
    kv_usage: Annotated[
        float | None, Field(description="KV blocks in use by live requests, 0 to 1.", ge=0, le=1)
    ] = None
    kv_usage_age_seconds: Annotated[Count | None, Field(description="Age of kvUsage.")] = None
    prefill_decode_ratio: Annotated[
        float | None, Field(description="Computed prompt tokens for each generated one.", ge=0, le=1e9)
    ] = None
    prefill_decode_ratio_age_seconds: Annotated[
        Count | None, Field(description="Age of prefillDecodeRatio.")
    ] = None


class Caps(StatusModel):
    """Live caps on running sequences over the ready pods."""

    min: Annotated[Count | None, Field(description="Lowest live cap.")] = None
    max: Annotated[Count | None, Field(description="Highest live cap.")] = None
    ceiling: Annotated[Count | None, Field(description="Ceiling the engines were started with.")] = None


class Recommendation(StatusModel):
    """What KVIS would set now, whether or not it may."""

    replicas: Annotated[Count | None, Field(description="Wanted replicas.")] = None
    max_num_seqs: Annotated[Count | None, Field(description="Wanted live cap per replica.")] = None
    reason: Annotated[str, Field(description="Why, in one word.", max_length=64)] = ""


class DecisionStatus(StatusModel):
    """One change, or one proposal, with its reason and the numbers behind it."""

    at: Annotated[Time, Field(description="When it was decided.")]
    knob: Annotated[str, Field(description="What was turned, such as replicas or maxNumSeqs.", max_length=64)]
    before: Annotated[str, Field(description="Value before.", max_length=64, alias="from")]
    after: Annotated[str, Field(description="Value decided.", max_length=64, alias="to")]
    reason: Annotated[str, Field(description="Why, in one word.", max_length=64)]
    numbers: dict[str, float] = Field(
        default_factory=dict, description="What the decision rests on.", max_length=16
    )
    outcome: Annotated[str, Field(description="Applied, Proposed, Refused or RolledBack.", max_length=32)] = (
        "Applied"
    )


class KnobBounds(StatusModel):
    """Bounds that KVIS learned for a knob from what failed."""

    knob: Annotated[str, Field(description="Name of the knob.", max_length=64)]
    min: Annotated[Count | None, Field(description="Lowest value known to work.")] = None
    max: Annotated[Count | None, Field(description="Highest value known to work.")] = None
    reason: Annotated[str, Field(description="What taught it.", max_length=128)] = ""


class Status(StatusModel):
    observed_generation: Annotated[
        Count, Field(description="Generation of the resource that was acted on last.")
    ] = 0
    replicas: Annotated[Count, Field(description="Pods that exist.")] = 0
    ready_replicas: Annotated[Count, Field(description="Pods that serve.")] = 0
    selector: Annotated[
        str, Field(description="Label selector of the pods, for autoscalers.", max_length=512)
    ] = ""
    conditions: list[Condition] = Field(
        default_factory=list, description="What is true now.", max_length=16, json_schema_extra=_BY_TYPE
    )
    plan: Annotated[PlanStatus | None, Field(description="What sizing settled on for each replica.")] = None
    cache: CacheStatus = Field(default_factory=CacheStatus, description="The golden metrics of the service.")
    caps: Caps = Field(default_factory=Caps, description="Live caps on running sequences.")
    recommendation: Annotated[Recommendation | None, Field(description="What KVIS would set now.")] = None
    decisions: list[DecisionStatus] = Field(
        default_factory=list, description="The last decisions, newest first.", max_length=MAX_DECISIONS
    )
    bounds: list[KnobBounds] = Field(
        default_factory=list, description="Bounds learned for knobs.", max_length=16
    )
    scaler: Annotated[
        dict[str, Any] | None,
        Field(description="What scaling remembers, for KVIS itself.", json_schema_extra=_PRESERVE),
    ] = None
    tuner: Annotated[
        dict[str, Any] | None,
        Field(description="What tuning remembers, for KVIS itself.", json_schema_extra=_PRESERVE),
    ] = None

    @classmethod
    def restore(cls, raw: Mapping[str, Any] | None) -> "Status":
        """From the stored object; one that cannot be read (an older or newer operator's) counts as empty."""
        try:
            return cls.model_validate(raw or {})
        except ValidationError:
            return cls()

    def with_decision(self, decision: DecisionStatus) -> "Status":
        return self.model_copy(update={"decisions": [decision, *self.decisions][:MAX_DECISIONS]})

    def to_dict(self) -> dict[str, Any]:
        """For the API server: camelCase, nothing that is None, ratios rounded, at most MAX_BYTES."""
        document: dict[str, Any] = _rounded(self.model_dump(mode="json", by_alias=True, exclude_none=True))
        while _size(document) > MAX_BYTES and document["decisions"]:
            document["decisions"].pop()
        for memory in ("tuner", "scaler"):
            if _size(document) > MAX_BYTES:
                document.pop(memory, None)
        return document


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, _DIGITS)
        case dict():
            # What scaling and tuning remember keeps its precision: it is computed with again.
            return {k: v if k in ("scaler", "tuner") else _rounded(v) for k, v in value.items()}
        case list():
            return [_rounded(item) for item in value]
        case _:
            return value


def _size(document: Mapping[str, Any] | Sequence[Any]) -> int:
    return len(json.dumps(document, separators=(",", ":")).encode())

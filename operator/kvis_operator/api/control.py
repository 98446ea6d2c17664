"""How KVIS may act on a service: who sets the replicas, and which knobs it may turn."""

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, model_validator

from kvis_operator.api.cel import rules
from kvis_operator.api.fields import Int, MemorySeconds, Model

_MIN_MAX_REPLICAS: Final = "minReplicas must not exceed maxReplicas"
_MIN_MAX_REPLICAS_RULE: Final = (
    "!has(self.maxReplicas) || !has(self.minReplicas) || self.minReplicas <= self.maxReplicas"
)
_MIN_MAX_SEQS: Final = "min must not exceed max"
_MIN_MAX_SEQS_RULE: Final = "!has(self.min) || !has(self.max) || self.min <= self.max"


class ScalingMode(StrEnum):
    AUTO = "Auto"
    RECOMMEND = "Recommend"
    MANUAL = "Manual"


class TuningMode(StrEnum):
    OFF = "Off"
    RECOMMEND = "Recommend"
    AUTO = "Auto"


class Scaling(Model):
    model_config = ConfigDict(json_schema_extra=rules((_MIN_MAX_REPLICAS_RULE, _MIN_MAX_REPLICAS)))

    mode: Annotated[
        ScalingMode,
        Field(
            description="Auto: KVIS sets replicas. Recommend: it only says what it would set. "
            "Manual: it follows replicas."
        ),
    ] = ScalingMode.AUTO
    min_replicas: Annotated[Int, Field(description="Fewest replicas in Auto.", ge=1, le=1000)] = 1
    max_replicas: Annotated[
        Int | None,
        Field(
            description="Most replicas in Auto; absent: minReplicas, so nothing scales until it is given.",
            ge=1,
            le=1000,
        ),
    ] = None
    down_memory_seconds: Annotated[
        MemorySeconds | None,
        Field(
            description="How far back demand is remembered before a replica is given up, such as 30m; "
            "absent: the larger of 10m and five start times, and longer after replicas that were missed soon. "
            "A shorter one also leaves less room for the usual peaks of the load.",
            alias="downMemory",
        ),
    ] = None
    target_utilization: Annotated[
        Int,
        Field(
            description="Percent of what a replica carries within its objectives that the load may take before another "
            "is added. One goes when the others would stay five below it.",
            ge=10,
            le=100,
        ),
    ] = 85
    spare_replicas: Annotated[
        Int,
        Field(
            description="Replicas on top of what the load needs, for bursts that are over before a new pod serves; "
            "maxReplicas still bounds the sum.",
            ge=0,
            le=1000,
        ),
    ] = 0

    @model_validator(mode="after")
    def _minimum_within_maximum(self) -> Self:
        if self.max_replicas is not None and self.min_replicas > self.max_replicas:
            raise ValueError(f"{_MIN_MAX_REPLICAS} ({self.min_replicas} > {self.max_replicas})")
        return self

    @property
    def upper_bound(self) -> int:
        return self.min_replicas if self.max_replicas is None else self.max_replicas


class SeqsRange(Model):
    model_config = ConfigDict(json_schema_extra=rules((_MIN_MAX_SEQS_RULE, _MIN_MAX_SEQS)))

    min: Annotated[Int | None, Field(description="Lowest live cap; absent: 1.", ge=1, le=4096)] = None
    max: Annotated[Int | None, Field(description="Highest live cap; absent: the ceiling.", ge=1, le=4096)] = (
        None
    )

    @model_validator(mode="after")
    def _minimum_within_maximum(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"{_MIN_MAX_SEQS} ({self.min} > {self.max})")
        return self


class Tuning(Model):
    mode: Annotated[
        TuningMode,
        Field(
            description="Auto: KVIS changes the live cap. Recommend: it only says what it would set. "
            "Off: it stays put."
        ),
    ] = TuningMode.AUTO
    max_num_seqs: SeqsRange = Field(
        default_factory=SeqsRange, description="Bounds of the live cap on running sequences per replica."
    )

"""Field types that objects of the resource share: closed models, strict numbers, quantities, durations.

Each carries its own JSON schema: the CRD shows the text a person writes while Python holds bytes and seconds.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema
from pydantic.alias_generators import to_camel

from kvis_operator.api import duration, quantity
from kvis_operator.api.cel import rules

_SLO_RANGE: Final = "must be between 1ms and 10m"
_MEMORY_RANGE: Final = "must be between 10s and 24h"

Int = Annotated[int, Strict()]
Bool = Annotated[bool, Strict()]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} must be a text")  # noqa: TRY004 - pydantic collects ValueError
    return value


def _bytes(value: Any) -> int:
    return quantity.parse_bytes(_text(value))


def _seconds(low: float, high: float, message: str) -> BeforeValidator:
    def check(value: Any) -> float:
        seconds = duration.parse_duration(_text(value))
        if not low <= seconds <= high:
            raise ValueError(f"{value}: {message}")
        return seconds

    return BeforeValidator(check)


def _duration_schema(low: str, high: str, message: str) -> WithJsonSchema:
    # The pattern guards the rule: duration() on any other text would fail with a message of its own.
    guard = f"!self.matches(r'{duration.PATTERN}')"
    rule = f"{guard} || (duration(self) >= duration('{low}') && duration(self) <= duration('{high}'))"
    return WithJsonSchema(
        {"type": "string", "maxLength": 32, "pattern": duration.PATTERN, **rules((rule, message))}
    )


MemoryBytes = Annotated[
    int,
    BeforeValidator(_bytes),
    WithJsonSchema({"type": "string", "maxLength": 14, "pattern": quantity.BYTES_PATTERN}),
]
LatencySeconds = Annotated[
    float, _seconds(0.001, 600, _SLO_RANGE), _duration_schema("1ms", "10m", _SLO_RANGE)
]
MemorySeconds = Annotated[
    float, _seconds(10, 86400, _MEMORY_RANGE), _duration_schema("10s", "24h", _MEMORY_RANGE)
]


class Model(BaseModel):
    """Base of every object in the resource: closed, immutable, camelCase outside."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class StatusModel(Model):
    """Base of what the operator itself writes: built by Python names, stored by camelCase ones."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)


class ObjectMeta(BaseModel):
    """The part of Kubernetes' metadata that this operator reads."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel)

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)

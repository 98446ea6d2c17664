"""`KVInferenceService`: everything a user may say about one served model, and nothing more.

Parsed once, at the edge, from what the API server hands over or from a manifest file. The CRD is generated
from these classes (crd.py), so description, bounds and CEL rules live beside each field. Absent means:
sized by `sizing`, then tuned. Never here: images, commands, free argument lists, pod templates, host paths,
security contexts, service accounts, references into other namespaces; the administrator's profile decides
those.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from kvis_operator.api.cel import rules
from kvis_operator.api.control import Scaling, ScalingMode, SeqsRange, Tuning, TuningMode
from kvis_operator.api.errors import SpecInvalid, field_errors
from kvis_operator.api.fields import Bool, Int, Model, ObjectMeta
from kvis_operator.api.serving import Batching, Engine, KVCache, KVCacheDtype, ModelSource, Slo, Workload

__all__ = [
    "API_VERSION",
    "GROUP",
    "KIND",
    "PLURAL",
    "VERSION",
    "Batching",
    "Engine",
    "KVCache",
    "KVCacheDtype",
    "KVInferenceService",
    "ModelSource",
    "ObjectMeta",
    "Scaling",
    "ScalingMode",
    "SeqsRange",
    "Slo",
    "Spec",
    "SpecInvalid",
    "Tuning",
    "TuningMode",
    "Workload",
]

GROUP: Final = "kvis.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "KVInferenceService"
PLURAL: Final = "kvinferenceservices"

NAME_PATTERN: Final = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
NAME_MESSAGE: Final = (
    "metadata.name must be at most 63 lower-case letters, digits and dashes, starting with a letter: "
    "it names the Service"
)
_CEILING: Final = (
    "tuning.maxNumSeqs.max must not exceed batching.maxNumSeqs, the ceiling the engine starts with"
)
_CEILING_RULE: Final = (
    "!has(self.batching) || !has(self.batching.maxNumSeqs) || !has(self.tuning) || "
    "!has(self.tuning.maxNumSeqs) || !has(self.tuning.maxNumSeqs.max) || "
    "self.tuning.maxNumSeqs.max <= self.batching.maxNumSeqs"
)
_LENGTHS: Final = "workload.inputTokens + workload.outputTokens must not exceed model.maxLength"
_LENGTHS_RULE: Final = (
    "!has(self.workload) || !has(self.model.maxLength) || "
    "(has(self.workload.inputTokens) ? self.workload.inputTokens : 0) + "
    "(has(self.workload.outputTokens) ? self.workload.outputTokens : 0) <= self.model.maxLength"
)


class Spec(Model):
    model_config = ConfigDict(
        json_schema_extra=rules((_CEILING_RULE, _CEILING), (_LENGTHS_RULE, _LENGTHS)),
    )

    model: Annotated[ModelSource, Field(description="The model to serve.")]
    profile: Annotated[
        str,
        Field(
            description="Name of a hardware profile that the administrator defined in the chart's values.",
            max_length=63,
            pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        ),
    ]
    engine: Annotated[Engine | None, Field(description="Serving engine; absent: the profile's.")] = None
    kv_cache: KVCache = Field(default_factory=KVCache, description="The KV cache of each replica.")
    batching: Batching = Field(default_factory=Batching, description="What one engine step may hold.")
    slo: Slo = Field(default_factory=Slo, description="Latency objectives that sizing and scaling aim for.")
    workload: Workload = Field(default_factory=Workload, description="What traffic to expect.")
    scaling: Scaling = Field(default_factory=Scaling, description="How the number of replicas is set.")
    tuning: Tuning = Field(
        default_factory=Tuning, description="Which knobs KVIS may turn on running replicas."
    )
    paused: Annotated[
        Bool, Field(description="Stop every change to replicas, caps and children; serving and status go on.")
    ] = False
    replicas: Annotated[
        Int | None,
        Field(
            description="Wanted replicas: written by KVIS in Auto, by you or an autoscaler in Manual.",
            ge=0,
            le=1000,
        ),
    ] = None

    @model_validator(mode="after")
    def _cap_within_ceiling(self) -> Self:
        ceiling, cap = self.batching.max_num_seqs, self.tuning.max_num_seqs.max
        if ceiling is not None and cap is not None and cap > ceiling:
            raise ValueError(f"{_CEILING} ({cap} > {ceiling})")
        return self

    @model_validator(mode="after")
    def _expected_length_fits(self) -> Self:
        expected = (self.workload.input_tokens or 0) + (self.workload.output_tokens or 0)
        if self.model.max_length is not None and expected > self.model.max_length:
            raise ValueError(f"{_LENGTHS} ({expected} > {self.model.max_length})")
        return self


class KVInferenceService(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: Spec

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "KVInferenceService":
        """From an API object or a manifest; its `status` is left to `Status.restore`.

        Raises SpecInvalid with every wrong field, its path and what would be accepted.
        """
        document = {key: value for key, value in raw.items() if key != "status"}
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SpecInvalid(field_errors(error, cls)) from error

    @model_validator(mode="after")
    def _is_this_kind(self) -> Self:
        if (self.api_version, self.kind) != (API_VERSION, KIND):
            raise ValueError(
                f"apiVersion and kind must be {API_VERSION} {KIND}, got {self.api_version} {self.kind}"
            )
        return self

    @model_validator(mode="after")
    def _name_fits_a_service(self) -> Self:
        if not re.fullmatch(NAME_PATTERN, self.metadata.name):
            raise ValueError(f"{NAME_MESSAGE}, got {self.metadata.name!r}")
        return self

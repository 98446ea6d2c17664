"""Hardware profiles: the administrator's table of what a service may run on, from the chart's values.

A user's resource names a profile and nothing of what stands in it: images, resources, node selectors, model
sources and ceilings are decided here. Read once from the mounted file when the operator starts; a table with
any mistake is refused whole, naming the field.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from kvis_kv.dtypes import TORCH_ENGINE, KVDtype
from kvis_kv.layout import BLOCK_SIZES, DEFAULT_BLOCK_SIZE
from kvis_operator.api import quantity
from kvis_operator.api.errors import ProfilesInvalid, field_errors
from kvis_operator.api.fields import Bool, Int, MemoryBytes, Model
from kvis_operator.api.serving import Engine

_CPU_RANGE: Final = (50, 1_024_000)  # thousandths of a core
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _pinned_image(image: str) -> str:
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if not digest and tag in ("", "latest"):
        raise ValueError(
            f"{image!r} needs a digest or a tag other than latest, pods must not differ by when they start"
        )
    return image


def _millicores(value: Any) -> int:
    amount = quantity.parse_cpu(str(value))
    least, most = _CPU_RANGE
    if not least <= amount <= most:
        raise ValueError(f"{value} must be between 50m and 1024 cores")
    return amount


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, values)))


_CPU_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [{"type": "string", "pattern": quantity.CPU_PATTERN}, {"type": "number", "exclusiveMinimum": 0}]
}
Millicores = Annotated[int, BeforeValidator(_millicores), WithJsonSchema(_CPU_SCHEMA)]


class EngineOffer(Model):
    """One engine as this hardware runs it; its lists may narrow what the engine can do, never widen it."""

    image: Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_pinned_image)]
    dtype: KVDtype = KVDtype.FLOAT32  # numbers the model computes in
    kv_dtypes: tuple[KVDtype, ...] = Field(default=(KVDtype.FLOAT32, KVDtype.BFLOAT16), min_length=1)
    block_sizes: tuple[Int, ...] = Field(default=BLOCK_SIZES, min_length=1)  # tokens
    default_block_size: Int = DEFAULT_BLOCK_SIZE

    @model_validator(mode="after")
    def _default_is_offered(self) -> Self:
        if self.default_block_size not in self.block_sizes:
            raise ValueError(
                f"defaultBlockSize {self.default_block_size} is not among blockSizes {self.block_sizes}"
            )
        return self


class Accelerator(Model):
    resource: str = Field(min_length=1, max_length=128)  # extended resource, such as nvidia.com/gpu
    count: Int = Field(default=1, ge=1, le=16)
    memory_bytes: Annotated[MemoryBytes, Field(alias="memory")]  # of one device


class Toleration(Model):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Int | None = None


class StepTimePrior(Model):
    """Seconds: t = a + p*prefill_tokens + d*running + c*kv_tokens, until traffic has been measured."""

    a: float = Field(gt=0, le=60)
    p: float = Field(gt=0, le=60)
    d: float = Field(ge=0, le=60)
    c: float = Field(ge=0, le=60)


class ModelSources(Model):
    """Where models may come from."""

    bundled: tuple[str, ...] = ()  # names of models in the image
    pvc: Bool = False  # claims of the service's own namespace


class Profile(Model):
    description: str = ""
    engines: dict[Engine, EngineOffer] = Field(min_length=1)
    default_engine: Engine = Engine.TORCH
    cpu_millicores: Annotated[Millicores, Field(alias="cpu")]
    cpu_request_millicores: Annotated[Millicores | None, Field(alias="cpuRequest")] = None  # absent: cpu
    memory_bytes: Annotated[MemoryBytes, Field(alias="memory")]  # of the pod, weights and KV cache included
    kv_memory_bytes: Annotated[MemoryBytes, Field(alias="kvMemory")]  # where the resource names none
    max_num_seqs: Int = Field(default=16, ge=1, le=4096)
    max_num_batched_tokens: Int = Field(default=512, ge=16, le=1_048_576)
    accelerator: Accelerator | None = None
    surge: Bool = True  # room for one more pod during a rollout; without it an old pod goes first
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    models: ModelSources = Field(default_factory=ModelSources)
    step_time: StepTimePrior
    start_seconds: float = Field(default=60, ge=1, le=7200)  # from pod creation to ready

    @model_validator(mode="after")
    def _engines_can_do_what_they_offer(self) -> Self:
        offer = self.engines.get(Engine.TORCH)
        if offer is None:
            return self
        dtypes = {offer.dtype, *offer.kv_dtypes} - TORCH_ENGINE
        sizes = set(offer.block_sizes) - set(BLOCK_SIZES)
        if dtypes:
            raise ValueError(f"engines.torch: {_listed(dtypes)} is not among {_listed(TORCH_ENGINE)}")
        if sizes:
            raise ValueError(
                f"engines.torch.blockSizes: {_listed(sizes)} is not among {_listed(BLOCK_SIZES)}"
            )
        return self

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if self.default_engine not in self.engines:
            raise ValueError(
                f"defaultEngine {self.default_engine} is not among engines: {', '.join(self.engines)}"
            )
        if self.accelerator is None and self.kv_memory_bytes >= self.memory_bytes:
            raise ValueError("kvMemory must be smaller than memory, the weights need room too")
        if self.max_num_seqs > self.max_num_batched_tokens:
            raise ValueError("maxNumSeqs must not exceed maxNumBatchedTokens")
        return self

    def engine(self, wanted: Engine | None) -> Engine:
        return wanted or self.default_engine


@dataclass(frozen=True, slots=True)
class ProfileTable:
    profiles: Mapping[str, Profile]

    def get(self, name: str) -> Profile | None:
        return self.profiles.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.profiles))


class _File(Model):
    profiles: dict[str, Profile]


def load_profiles(text: str) -> ProfileTable:
    """The table from its YAML text. Raises ProfilesInvalid naming every wrong field."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProfilesInvalid([("", f"not YAML: {error}")]) from error
    try:
        table = TypeAdapter(_File).validate_python(document)
    except ValidationError as error:
        raise ProfilesInvalid(field_errors(error, _File)) from error
    wrong = [name for name in table.profiles if not _NAME.fullmatch(name)]
    if wrong or not table.profiles:
        message = (
            "a name must be a DNS label such as cpu-small" if wrong else "at least one profile is needed"
        )
        raise ProfilesInvalid([(f"profiles.{name}", message) for name in wrong] or [("profiles", message)])
    return ProfileTable(table.profiles)

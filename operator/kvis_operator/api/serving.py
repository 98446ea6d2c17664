"""What is served and how one replica holds it: model, KV cache, batches, objectives, expected traffic."""

import re
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from kvis_operator.api.cel import rules
from kvis_operator.api.fields import Bool, Int, LatencySeconds, MemoryBytes, Model

_URI_PATTERN: Final = r"^(bundled|pvc)://[A-Za-z0-9._/-]+$"
_URI_FORM: Final = (
    r"^(bundled://[a-z0-9]([-a-z0-9.]*[a-z0-9])?|"
    r"pvc://[a-z0-9]([-a-z0-9]*[a-z0-9])?(/[A-Za-z0-9_][A-Za-z0-9._-]*)+)$"
)
_URI_MESSAGE: Final = (
    "must be bundled://<name> or pvc://<claim>/<path>, the path without empty, . or .. parts"
)
_SEQS_IN_TOKENS: Final = (
    "maxNumSeqs must not exceed maxNumBatchedTokens, for every running sequence needs a token per step"
)
_SEQS_IN_TOKENS_RULE: Final = (
    "!has(self.maxNumSeqs) || !has(self.maxNumBatchedTokens) || self.maxNumSeqs <= self.maxNumBatchedTokens"
)


class Engine(StrEnum):
    TORCH = "torch"


class KVCacheDtype(StrEnum):
    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def _plain_uri(uri: str) -> str:
    if not re.fullmatch(_URI_FORM, uri):
        raise ValueError(f"{uri!r} {_URI_MESSAGE}")
    return uri


class ModelSource(Model):
    uri: Annotated[
        str,
        Field(
            description="Where the model lies: bundled://<name> for one that the runtime image carries, "
            "pvc://<claim>/<path> for a directory on a PersistentVolumeClaim of the same namespace.",
            max_length=512,
            pattern=_URI_PATTERN,
            json_schema_extra=rules((f"self.matches(r'{_URI_FORM}')", _URI_MESSAGE)),
        ),
        AfterValidator(_plain_uri),
    ]
    served_name: Annotated[
        str | None,
        Field(
            description="Model name in the API; absent: the last part of the URI.",
            max_length=128,
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$",
        ),
    ] = None
    max_length: Annotated[
        Int | None,
        Field(
            description="Longest sequence in tokens, prompt and answer together; absent: what the model "
            "and the KV memory allow.",
            ge=16,
            le=16_777_216,
        ),
    ] = None

    @property
    def bundled_name(self) -> str | None:
        return self.uri.removeprefix("bundled://") if self.uri.startswith("bundled://") else None

    @property
    def claim(self) -> tuple[str, str] | None:
        """(claim name, path inside it), or None where the model is bundled."""
        if self.bundled_name is not None:
            return None
        claim, _, path = self.uri.removeprefix("pvc://").partition("/")
        return claim, path

    @property
    def api_name(self) -> str:
        return self.served_name or self.uri.rpartition("/")[2]


class KVCache(Model):
    dtype: Annotated[
        KVCacheDtype,
        Field(description="Number format of cached keys and values; auto: the format the model computes in."),
    ] = KVCacheDtype.AUTO
    block_size: Annotated[
        Int | None,
        Field(
            description="Tokens per KV block; absent: the profile's. What an engine can use is checked.",
            ge=1,
            le=1024,
        ),
    ] = None
    memory_bytes: Annotated[
        MemoryBytes | None,
        Field(
            description="Memory for the KV cache of one replica, such as 512Mi; absent: the profile's.",
            alias="memory",
        ),
    ] = None
    prefix_caching: Annotated[
        Bool, Field(description="Reuse cached blocks between requests with a common prefix.")
    ] = True


class Batching(Model):
    model_config = ConfigDict(json_schema_extra=rules((_SEQS_IN_TOKENS_RULE, _SEQS_IN_TOKENS)))

    max_num_seqs: Annotated[
        Int | None,
        Field(
            description="Most sequences that run at once in one replica, the ceiling of the live cap.",
            ge=1,
            le=4096,
        ),
    ] = None
    max_num_batched_tokens: Annotated[
        Int | None,
        Field(description="Most tokens in one engine step, prompts being split to fit.", ge=16, le=1_048_576),
    ] = None

    @model_validator(mode="after")
    def _a_token_for_every_sequence(self) -> Self:
        if (
            self.max_num_seqs
            and self.max_num_batched_tokens
            and self.max_num_seqs > self.max_num_batched_tokens
        ):
            raise ValueError(_SEQS_IN_TOKENS)
        return self


class Slo(Model):
    ttft_p95_seconds: Annotated[
        LatencySeconds | None,
        Field(
            description="Objective for the time to the first token, 95th percentile, such as 2s.",
            alias="ttftP95",
        ),
    ] = None
    tpot_p95_seconds: Annotated[
        LatencySeconds | None,
        Field(
            description="Objective for the time per output token, 95th percentile, such as 100ms.",
            alias="tpotP95",
        ),
    ] = None


class Workload(Model):
    input_tokens: Annotated[
        Int | None,
        Field(description="Typical prompt length, a hint until traffic is seen.", ge=1, le=16_777_216),
    ] = None
    output_tokens: Annotated[
        Int | None,
        Field(description="Typical answer length, a hint until traffic is seen.", ge=1, le=16_777_216),
    ] = None

"""The shape of a model, as far as memory arithmetic needs it, and the shapes of the bundled models.

Read from a Hugging Face `config.json` by the runtime, and from the table by the operator, which sees no
files. Llama-family decoders with dense attention only; anything else is refused with the name of the field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

LLAMA_FAMILY: Final = frozenset({"llama"})
"""`model_type` values whose layers are exactly those of Llama."""


class ModelConfigError(ValueError):
    """A `config.json` that cannot be used; `field` is its key."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"config.json: {field}: {message}")
        self.field = field


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Counts of a dense decoder. `context` is in tokens, the trained maximum."""

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocabulary: int
    context: int
    tied_embeddings: bool

    @property
    def parameters(self) -> int:
        """Number of weights; SmolLM2-135M has 134,515,008."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        embeddings = self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)
        return self.layers * layer + embeddings + self.hidden

    def weights_bytes(self, bytes_per_weight: int) -> int:
        """Bytes of all weights at 4 (float32) or 2 (bfloat16) bytes each."""
        return self.parameters * bytes_per_weight


BUNDLED: Final[dict[str, ModelShape]] = {
    "smollm2-135m": ModelShape(
        name="smollm2-135m",
        layers=30,
        heads=9,
        kv_heads=3,
        head_dim=64,
        hidden=576,
        intermediate=1536,
        vocabulary=49152,
        context=8192,
        tied_embeddings=True,
    ),
}
"""Models inside the runtime image, by the name in `bundled://NAME`."""


def shape_from_config(config: Mapping[str, Any], *, name: str) -> ModelShape:
    """The shape that a parsed `config.json` states; ModelConfigError names the first field that is wrong."""
    kind = config.get("model_type")
    if kind not in LLAMA_FAMILY:
        raise ModelConfigError(
            "model_type", f"{kind!r} is not supported; supported: {', '.join(sorted(LLAMA_FAMILY))}"
        )
    heads = _positive(config, "num_attention_heads")
    hidden = _positive(config, "hidden_size")
    kv_heads = _positive(config, "num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise ModelConfigError(
            "num_key_value_heads", f"{kv_heads} does not divide num_attention_heads {heads}"
        )
    return ModelShape(
        name=name,
        layers=_positive(config, "num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_positive(config, "head_dim", default=hidden // heads),
        hidden=hidden,
        intermediate=_positive(config, "intermediate_size"),
        vocabulary=_positive(config, "vocab_size"),
        context=_positive(config, "max_position_embeddings"),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
    )


def _positive(config: Mapping[str, Any], field: str, *, default: int | None = None) -> int:
    value = config.get(field)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelConfigError(field, f"{value!r} is not a whole number of at least 1")
    return value

"""Reads a model folder: config.json, safetensors and the ids that end a sequence.

Refuses what the forward pass does not compute, with the name of the field in config.json, rather than
producing wrong tokens. Weights are laid out for the forward pass here, once, layer by layer: fused
projections, rotary pairs adjacent, matrices packed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from kvis_kv.models import ModelConfigError, ModelShape, shape_from_config
from kvis_runtime.engine.config import ConfigError
from kvis_runtime.model.matrix import Matrix
from kvis_runtime.model.norm import RMSNorm


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What config.json says beyond the shape."""

    shape: ModelShape
    rms_norm_eps: float
    rope_theta: float
    eos_token_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer. `qkv` stacks q, k, v and `gate_up` stacks gate, up."""

    input_norm: RMSNorm
    qkv: Matrix
    o: Matrix
    post_norm: RMSNorm
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights. `embedding` keeps the dtype of the file, for it is looked up, not multiplied."""

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: RMSNorm
    head: Matrix


def read_facts(folder: Path) -> ModelFacts:
    """Parse config.json; ConfigError for a missing folder, ModelConfigError for what cannot be computed."""
    config = _read_json(folder / "config.json")
    if config is None:
        raise ConfigError("model", f"{folder} has no config.json; give the folder of a Hugging Face model")
    shape = shape_from_config(config, name=folder.name)
    _refuse_variants(config)
    generation = _read_json(folder / "generation_config.json") or {}
    eos = generation.get("eos_token_id", config.get("eos_token_id"))
    return ModelFacts(
        shape=shape,
        rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope_theta=_rope_theta(config),
        eos_token_ids=frozenset([] if eos is None else eos if isinstance(eos, list) else [eos]),
    )


def read_weights(folder: Path, facts: ModelFacts, dtype: torch.dtype) -> Weights:
    """Load every safetensors file of the folder; ConfigError names a tensor that is missing or misshapen."""
    source, shape = _Tensors(folder, dtype), facts.shape
    embedding = source.stored("model.embed_tokens.weight", shape.vocabulary, shape.hidden)
    head = (
        embedding.to(dtype)
        if shape.tied_embeddings
        else source.take("lm_head.weight", shape.vocabulary, shape.hidden)
    )
    return Weights(
        embedding=embedding,
        layers=tuple(_layer(source, f"model.layers.{index}", facts) for index in range(shape.layers)),
        norm=RMSNorm(source.take("model.norm.weight", shape.hidden), facts.rms_norm_eps),
        head=Matrix(head),
    )


def _layer(source: "_Tensors", at: str, facts: ModelFacts) -> LayerWeights:
    shape, eps = facts.shape, facts.rms_norm_eps
    hidden, inner = shape.hidden, shape.intermediate
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    q = source.take(f"{at}.self_attn.q_proj.weight", queries, hidden)
    k = source.take(f"{at}.self_attn.k_proj.weight", keys, hidden)
    v = source.take(f"{at}.self_attn.v_proj.weight", keys, hidden)
    gate = source.take(f"{at}.mlp.gate_proj.weight", inner, hidden)
    up = source.take(f"{at}.mlp.up_proj.weight", inner, hidden)
    return LayerWeights(
        input_norm=RMSNorm(source.take(f"{at}.input_layernorm.weight", hidden), eps),
        qkv=Matrix(torch.cat([_pair_rotary(q, shape.head_dim), _pair_rotary(k, shape.head_dim), v])),
        o=Matrix(source.take(f"{at}.self_attn.o_proj.weight", hidden, queries)),
        post_norm=RMSNorm(source.take(f"{at}.post_attention_layernorm.weight", hidden), eps),
        gate_up=Matrix(torch.cat([gate, up])),
        down=Matrix(source.take(f"{at}.mlp.down_proj.weight", hidden, inner)),
    )


def _pair_rotary(weight: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Reorder each head's rows so that the two halves that rotate together lie side by side.

    Queries and keys are reordered alike, which leaves their dot products as they were, and a pair becomes one
    complex number that a single multiplication rotates.
    """
    halves = weight.view(-1, 2, head_dim // 2, weight.shape[1])
    return halves.transpose(1, 2).reshape(weight.shape)


class _Tensors:
    """The tensors of all safetensors files in a folder, by name."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._folder = folder
        self._files: dict[str, Any] = {}
        for path in sorted(folder.glob("*.safetensors")):
            file: Any = safe_open(path, framework="pt")  # untyped
            self._files.update(dict.fromkeys(file.keys(), file))
        if not self._files:
            raise ConfigError("model", f"{folder} has no *.safetensors file")

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """The tensor in the dtype that the model computes in."""
        return self.stored(name, *shape).to(self._dtype)

    def stored(self, name: str, *shape: int) -> torch.Tensor:
        """The tensor as the file has it."""
        if name not in self._files:
            raise ConfigError("model", f"{self._folder} lacks the tensor {name}")
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        if tuple(tensor.shape) != shape:
            raise ConfigError("model", f"{name} has shape {tuple(tensor.shape)}; config.json implies {shape}")
        return tensor


def _rope_theta(config: Mapping[str, Any]) -> float:
    rope = config.get("rope_parameters") or {}
    return float(rope.get("rope_theta", config.get("rope_theta", 10000.0)))


def _refuse_variants(config: Mapping[str, Any]) -> None:
    for field in ("rope_scaling", "rope_parameters"):
        rope = config.get(field) or {}
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default":
            raise ModelConfigError(f"{field}.rope_type", f"{kind!r} is not supported; 'default' would work")
    for field in ("attention_bias", "mlp_bias"):
        if config.get(field):
            raise ModelConfigError(field, "biases are not supported; false would work")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelConfigError("hidden_act", f"{config['hidden_act']!r} is not supported; 'silu' would work")
    if config.get("sliding_window"):
        raise ModelConfigError("sliding_window", "windows are not supported; null would work")
    if config.get("quantization_config"):
        raise ModelConfigError("quantization_config", "quantised weights are not supported; convert to bf16")


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigError("model", f"{path} is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ConfigError("model", f"{path} must hold a JSON object")
    return parsed

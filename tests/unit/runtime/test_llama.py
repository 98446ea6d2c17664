"""A tiny random Llama through the whole engine: cached and uncached, chunked and whole must agree."""

import json

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file  # noqa: E402

from kvis_kv.models import ModelConfigError  # noqa: E402
from kvis_runtime.engine.config import ConfigError, EngineConfig  # noqa: E402
from kvis_runtime.engine.request import FinishedReason, Request, RequestError, SamplingParams  # noqa: E402
from kvis_runtime.model.llm import Engine  # noqa: E402

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "vocab_size": 96,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "eos_token_id": 0,
    "tie_word_embeddings": False,
}
PROMPT = tuple(range(10, 60))


def weight_shapes():
    hidden, inner, keys = 32, 48, 16
    shapes = {"model.embed_tokens.weight": (96, hidden), "lm_head.weight": (96, hidden)}
    for layer in range(2):
        at = f"model.layers.{layer}."
        shapes |= {
            f"{at}self_attn.q_proj.weight": (hidden, hidden),
            f"{at}self_attn.k_proj.weight": (keys, hidden),
            f"{at}self_attn.v_proj.weight": (keys, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, hidden),
            f"{at}mlp.gate_proj.weight": (inner, hidden),
            f"{at}mlp.up_proj.weight": (inner, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inner),
        }
    return shapes


def write_model(folder, *, without=(), **changes):
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    generator = torch.Generator().manual_seed(5)
    tensors = {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in weight_shapes().items()}
    norms = [
        f"model.layers.{layer}.{name}_layernorm.weight"
        for layer in range(2)
        for name in ("input", "post_attention")
    ]
    tensors |= {name: torch.rand(32, generator=generator) + 0.5 for name in [*norms, "model.norm.weight"]}
    save_file(
        {name: tensor for name, tensor in tensors.items() if name not in without},
        folder / "model.safetensors",
    )
    return folder


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path)


def an_engine(model, **settings):
    defaults = {"block_size": 8, "kv_cache_memory_bytes": 2**21, "threads": 1}
    return Engine.load(EngineConfig(model, **(defaults | settings)))


def generated(engine, *prompts, **params):
    for index, prompt in enumerate(prompts):
        engine.add(
            Request(str(index), prompt, SamplingParams(**({"max_tokens": 12, "ignore_eos": True} | params)))
        )
    tokens = {str(index): () for index in range(len(prompts))}
    while engine.has_work():
        for output in engine.step():
            tokens[output.request_id] += output.new_token_ids
    return list(tokens.values())


def test_chunked_prompts_give_the_tokens_of_whole_ones(model):
    whole = generated(an_engine(model), PROMPT)
    chunked = generated(an_engine(model, max_num_batched_tokens=16, max_num_seqs=4), PROMPT)
    assert chunked == whole


def test_a_batch_of_different_lengths_gives_the_tokens_of_each_alone(model):
    prompts = [PROMPT[: length + 1] for length in (0, 3, 8, 20, 49)]
    alone = [generated(an_engine(model), prompt)[0] for prompt in prompts]
    assert generated(an_engine(model, enable_prefix_caching=False), *prompts) == alone


def test_prefix_hits_give_the_same_tokens(model):
    engine = an_engine(model)
    first = generated(engine, PROMPT)
    assert generated(engine, PROMPT) == first
    assert engine.stats().prefix_hits == 48


def test_a_shared_prefix_in_one_step_gives_the_same_tokens(model):
    first, second = (*PROMPT[:40], 7, 8), (*PROMPT[:40], 9)
    apart = [generated(an_engine(model), first)[0], generated(an_engine(model), second)[0]]
    engine = an_engine(model)
    assert generated(engine, first, second) == apart
    assert engine.stats().prefix_hits == 40


def test_preemption_gives_the_same_tokens(model):
    prompts = [PROMPT[:30], PROMPT[5:35]]
    alone = [generated(an_engine(model), prompt, max_tokens=30)[0] for prompt in prompts]
    tight = 9 * 8 * 2 * 2 * 2 * 8 * 4  # blocks x tokens x sides x layers x KV heads x head_dim x bytes
    engine = an_engine(model, kv_cache_memory_bytes=tight, max_model_len=64)
    assert generated(engine, *prompts, max_tokens=30) == alone
    assert engine.stats().preemptions > 0


def test_kv_in_bfloat16_serves_a_float32_model(model):
    engine = an_engine(model, kv_cache_dtype="bfloat16")
    first = generated(engine, PROMPT)
    assert len(first[0]) == 12
    assert engine.stats().kv_capacity_tokens == 2 * an_engine(model).stats().kv_capacity_tokens


def test_a_bfloat16_model_serves(model):
    assert len(generated(an_engine(model, dtype="bfloat16"), PROMPT)[0]) == 12


def test_a_seeded_request_draws_the_same_tokens_in_a_batch(model):
    params = {"temperature": 1.0, "seed": 11}
    alone = generated(an_engine(model), PROMPT, **params)[0]
    assert generated(an_engine(model), PROMPT[:9], PROMPT, **params)[1] == alone


def test_an_aborted_request_ends_and_frees_its_blocks(model):
    engine = an_engine(model, enable_prefix_caching=False)
    engine.add(Request("a", PROMPT, SamplingParams(max_tokens=50, ignore_eos=True)))
    engine.step()
    output = engine.abort("a")
    assert output.finished_reason is FinishedReason.ABORT
    assert not engine.has_work()
    assert engine.stats().blocks_free == engine.stats().blocks_total


def test_token_ids_outside_the_vocabulary_are_refused(model):
    with pytest.raises(RequestError, match="outside 0 to 95"):
        an_engine(model).add(Request("a", (96,)))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling.rope_type"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_parameters.rope_type"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"sliding_window": 4096}, "sliding_window"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"model_type": "gemma2"}, "model_type"),
    ],
)
def test_a_config_that_is_not_computed_is_refused_with_its_field(tmp_path, changes, field):
    with pytest.raises(ModelConfigError) as caught:
        an_engine(write_model(tmp_path, **changes))
    assert caught.value.field == field


def test_a_missing_tensor_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"lacks the tensor lm_head\.weight"):
        an_engine(write_model(tmp_path, without=("lm_head.weight",)))


def test_a_misshapen_tensor_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"gate_proj\.weight has shape"):
        an_engine(write_model(tmp_path, intermediate_size=64))


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        an_engine(tmp_path)

"""Reading a model's shape from its config.json."""

import pytest

from kvis_kv.models import BUNDLED, ModelConfigError, shape_from_config


def a_config(**changes):
    return {
        "model_type": "llama",
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    } | changes


def test_the_bundled_models_config_gives_the_tables_shape():
    assert shape_from_config(a_config(), name="smollm2-135m") == BUNDLED["smollm2-135m"]


def test_missing_kv_heads_mean_one_per_query_head():
    config = a_config()
    del config["num_key_value_heads"]
    assert shape_from_config(config, name="x").kv_heads == 9


def test_missing_head_dim_is_the_hidden_size_over_the_heads():
    assert shape_from_config(a_config(head_dim=None), name="x").head_dim == 64


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model_type": "mamba"}, "model_type"),
        ({"num_key_value_heads": 2}, "num_key_value_heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"max_position_embeddings": None}, "max_position_embeddings"),
    ],
)
def test_a_wrong_config_is_refused_with_the_fields_name(changes, field):
    with pytest.raises(ModelConfigError) as caught:
        shape_from_config(a_config(**changes), name="x")
    assert caught.value.field == field

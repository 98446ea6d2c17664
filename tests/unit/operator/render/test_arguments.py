"""What the operator renders is what the runtime understands: both sides of the command line in one test."""

import pathlib
from dataclasses import replace
from typing import Any

import pytest

from kvis_operator.render.arguments import arguments
from kvis_runtime.cli.arguments import parse
from kvis_runtime.cli.serve import engine_config
from service_builders import MODEL, a_plan, a_service


def _rendered(**spec: Any) -> list[str]:
    return arguments(a_plan(a_service(**spec)))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"kvCache": {"dtype": "bfloat16", "blockSize": 256, "memory": "1Gi", "prefixCaching": False}},
        {"batching": {"maxNumSeqs": 64, "maxNumBatchedTokens": 64}},
        {"model": {"uri": MODEL, "servedName": "a/b:c", "maxLength": 16}},
        {"model": {"uri": "pvc://claim/x"}},
    ],
    ids=str,
)
def test_the_runtime_parses_every_argument(spec: dict[str, Any]) -> None:
    assert parse(_rendered(**spec)).command == "serve"


def test_the_engine_accepts_what_was_planned(tmp_path: pathlib.Path) -> None:
    cache = {"dtype": "bfloat16", "blockSize": 64, "memory": "128Mi"}
    plan = a_plan(a_service(kvCache=cache, batching={"maxNumSeqs": 5}))
    (tmp_path / "config.json").touch()
    config = engine_config(parse(arguments(replace(plan, model_path=str(tmp_path)))))
    assert (config.kv_cache_memory_bytes, config.block_size, config.max_num_seqs) == (128 * 2**20, 64, 5)
    assert (config.kv_cache_dtype, config.max_model_len) == ("bfloat16", plan.max_model_len)


def test_a_text_that_looks_like_a_flag_stays_a_value() -> None:
    parsed = parse(_rendered(model={"uri": "pvc://claim/x--port", "servedName": "x--host"}))
    assert (parsed.served_model_name, parsed.port) == ("x--host", 8000)


def test_a_length_that_is_not_known_is_left_to_the_model() -> None:
    assert parse(_rendered(model={"uri": "pvc://claim/x"})).max_model_len is None

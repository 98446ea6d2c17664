"""The samples in `crds/samples`: the models, the generated schema and the API server must judge them alike.

Each invalid one says in its first line what the answer must name, and in its second who can tell: the
schema, or only a rule across fields (which plain JSON schema cannot evaluate; the cluster tier asks the
real server).
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from kvis_operator.api import crd
from kvis_operator.api.errors import SpecInvalid
from kvis_operator.api.v1alpha1 import KVInferenceService

SAMPLES = pathlib.Path(__file__).parents[4] / "crds" / "samples"
VALID = sorted((SAMPLES / "valid").glob("*.yaml"))
INVALID = sorted((SAMPLES / "invalid").glob("*.yaml"))


def _closed(node: dict[str, Any]) -> dict[str, Any]:
    """As the API server reads it under strict validation: an object has the listed fields and no others."""
    closed = dict(node)
    if "properties" in node:
        closed["properties"] = {name: _closed(child) for name, child in node["properties"].items()}
        closed["additionalProperties"] = False
    if "items" in node:
        closed["items"] = _closed(node["items"])
    return closed


def _problems(document: dict[str, Any]) -> Iterator[str]:
    spec = _closed(crd.schema()["properties"]["spec"])
    for error in jsonschema.Draft202012Validator(spec).iter_errors(document["spec"]):
        yield f"{'.'.join(['spec', *map(str, error.absolute_path)])}: {error.message}"


def _header(path: pathlib.Path, key: str) -> str:
    line = next(line for line in path.read_text().splitlines() if line.startswith(f"# {key}: "))
    return line.removeprefix(f"# {key}: ")


def test_there_are_samples_of_both_kinds() -> None:
    assert len(VALID) >= 5
    assert len(INVALID) >= 30


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_sample_parses(path: pathlib.Path) -> None:
    assert KVInferenceService.parse(yaml.safe_load(path.read_text())).metadata.name == path.stem


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_sample_fits_the_generated_schema(path: pathlib.Path) -> None:
    assert list(_problems(yaml.safe_load(path.read_text()))) == []


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_sample_is_refused_with_the_field_named(path: pathlib.Path) -> None:
    with pytest.raises(SpecInvalid) as refused:
        KVInferenceService.parse(yaml.safe_load(path.read_text()))
    assert _header(path, "refused") in str(refused.value)


@pytest.mark.parametrize(
    "path", [p for p in INVALID if _header(p, "by") == "schema"], ids=lambda path: path.stem
)
def test_a_sample_that_the_schema_can_judge_is_refused_by_it(path: pathlib.Path) -> None:
    problems = list(_problems(yaml.safe_load(path.read_text())))
    field = _header(path, "refused").removeprefix("spec.")
    assert any(field.rpartition(".")[2] in problem for problem in problems), problems

"""The models and the generated schema give the same answer to any document, not only to the samples.

Documents are drawn from the schema itself, so a new field is covered without a word here, and one place of each is
then spoilt at random. What the schema refuses the models must refuse; what only the models refuse must be one of the
rules that the definition carries for the API server.
"""

from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from kvis_operator.api import crd
from kvis_operator.api.errors import SpecInvalid
from kvis_operator.api.v1alpha1 import KVInferenceService
from service_builders import a_manifest

SPEC = crd.schema()["properties"]["spec"]
FITTING = {
    "uri": ["bundled://smollm2-135m", "pvc://claim/a/b", "pvc://claim/../b"],
    "servedName": ["a", "org/model:7b"],
    "profile": ["cpu-small", "a" * 63],
    "memory": ["0", "512Mi", "9999Gi"],
    "ttftP95": ["2s", "250ms", "0s", "99h"],
    "tpotP95": ["100ms", "1h30m"],
    "downMemory": ["30m", "1s"],
}
SPOILT = st.sampled_from([-1, 0, 2**40, 1.5, True, "", "x" * 600, "--flag", [], {}, {"a": 1}, "8"])


def _closed(node: dict[str, Any]) -> dict[str, Any]:
    closed = dict(node)
    if "properties" in node:
        closed["properties"] = {name: _closed(child) for name, child in node["properties"].items()}
        closed["additionalProperties"] = False
    return closed


def _documents(node: dict[str, Any], name: str = "") -> st.SearchStrategy[Any]:
    match node:
        case {"enum": values}:
            return st.sampled_from(values)
        case {"type": "object", "properties": properties}:
            required = set(node.get("required", ()))
            parts = {key: _documents(child, key) for key, child in properties.items()}
            return st.fixed_dictionaries(
                {key: part for key, part in parts.items() if key in required},
                optional={key: part for key, part in parts.items() if key not in required},
            )
        case {"type": "integer"}:
            return st.integers(node["minimum"], node["maximum"])
        case {"type": "boolean"}:
            return st.booleans()
        case _:
            return st.sampled_from(FITTING[name])


def _places(document: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    places = [(*path, key) for key in (*document, "surplus")]
    for key, value in document.items():
        if isinstance(value, dict):
            places += _places(value, (*path, key))
    return places


@st.composite
def _spoilt(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = draw(_documents(SPEC))
    *path, last = draw(st.sampled_from(_places(document)))
    place = document
    for step in path:
        place = place[step]
    place[last] = draw(SPOILT)
    return document


VALIDATOR = jsonschema.Draft202012Validator(_closed(SPEC))
RULES = tuple(
    rule["message"]
    for node in (SPEC, *SPEC["properties"].values(), *SPEC["properties"]["tuning"]["properties"].values())
    for child in (node, *node.get("properties", {}).values())
    for rule in child.get("x-kubernetes-validations", ())
)


def _refusal(spec: dict[str, Any]) -> str | None:
    try:
        KVInferenceService.parse({**a_manifest(), "spec": spec})
    except SpecInvalid as error:
        return str(error)
    return None


@settings(max_examples=75, deadline=None)
@given(_documents(SPEC))
def test_a_document_that_fits_the_schema_is_refused_by_its_rules_alone(spec: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(spec)
    refusal = _refusal(spec)
    assert refusal is None or any(message in refusal for message in RULES), refusal


@settings(max_examples=150, deadline=None)
@given(_spoilt())
def test_what_the_schema_refuses_the_models_refuse(spec: dict[str, Any]) -> None:
    if not VALIDATOR.is_valid(spec):
        assert _refusal(spec) is not None


@settings(max_examples=75, deadline=None)
@given(_spoilt())
def test_a_refusal_names_a_field_of_the_document(spec: dict[str, Any]) -> None:
    refusal = _refusal(spec)
    assert refusal is None or refusal.startswith("spec")

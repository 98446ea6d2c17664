"""The CustomResourceDefinition, generated from the models of the resource and its status.

Turns pydantic's JSON schema into a structural one: references inlined, one plain type for each node, null
unions undone, no keyword that the API server forbids. Deterministic: the same models always give the same
text.
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml
from pydantic import BaseModel

from kvis_operator.api.cel import rules
from kvis_operator.api.status import Status
from kvis_operator.api.v1alpha1 import GROUP, KIND, NAME_MESSAGE, NAME_PATTERN, PLURAL, VERSION, Spec

SHORT_NAME: Final = "kvis"
FILE_NAME: Final = f"{GROUP}_{PLURAL}.yaml"
HEADER: Final = "# Generated from kvis_operator.api by `kvis crds write`; do not edit.\n"
_DROPPED: Final = frozenset({"title", "$defs", "uniqueItems"})

COLUMNS: Final = (
    ("Model", "string", ".spec.model.uri"),
    ("Engine", "string", ".status.plan.engine"),
    ("Ready", "integer", ".status.readyReplicas"),
    ("Replicas", "integer", ".spec.replicas"),
    ("Hit-rate", "number", ".status.cache.hitRate"),
    ("KV-used", "number", ".status.cache.kvUsage"),
    ("Max-seqs", "integer", ".status.caps.max"),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def text() -> str:
    """The file as it lies in `crds/`."""
    return HEADER + yaml.safe_dump(definition(), sort_keys=True, width=110, allow_unicode=True)


def definition() -> dict[str, Any]:
    names = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": PLURAL,
        "singular": KIND.lower(),
        "shortNames": [SHORT_NAME],
        "categories": ["all"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [_version()]},
    }


def schema() -> dict[str, Any]:
    """The openAPIV3Schema of the stored object."""
    return {
        "type": "object",
        "description": "One model, served by replicas that KVIS sizes, tunes and scales.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(Spec) | {"description": "What is wanted."},
            "status": structural(Status) | {"description": "What KVIS saw, planned and decided."},
        },
        **rules((f"self.metadata.name.matches(r'{NAME_PATTERN}')", NAME_MESSAGE)),
    }


def structural(model: type[BaseModel]) -> dict[str, Any]:
    document = model.model_json_schema(by_alias=True)
    return _node(document, document.get("$defs", {}))


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [{"name": n, "type": t, "jsonPath": path} for n, t, path in COLUMNS],
    }


def _node(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    node = _without_reference(_without_null(node), definitions)
    result = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if result.get("default", ...) is None:
        del result["default"]
    if isinstance(result.get("additionalProperties"), bool):
        del result["additionalProperties"]  # closed and open objects are the server's own matter
    if "additionalProperties" in result:
        result["additionalProperties"] = _node(result["additionalProperties"], definitions)
    if "items" in result:
        result["items"] = _node(result["items"], definitions)
    if "properties" in result:
        result["properties"] = {
            name: _node(child, definitions) for name, child in result["properties"].items()
        }
    assert isinstance(result.get("type"), str), f"not structural, no plain type: {node}"
    return result


def _without_null(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """`anyOf: [X, null]` is X: absent and null are the same to the API server."""
    if "anyOf" not in node:
        return node
    choices = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    assert len(choices) == 1, f"not structural, a union: {node}"
    return _over(choices[0], {key: value for key, value in node.items() if key != "anyOf"})


def _without_reference(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = _over(target, {key: value for key, value in node.items() if key != "$ref"})
    return node


def _over(target: Mapping[str, Any], siblings: Mapping[str, Any]) -> dict[str, Any]:
    """A type's own schema under what the field says about it; validation rules of both stay."""
    merged = {**target, **siblings}
    key = "x-kubernetes-validations"
    if key in target and key in siblings:
        merged[key] = [*target[key], *siblings[key]]
    return merged

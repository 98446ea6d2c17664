import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kvis_operator.api import crd
from kvis_operator.api.v1alpha1 import NAME_PATTERN
from kvis_operator.cli import crds

ROOT = pathlib.Path(__file__).parents[4]
FORBIDDEN = {
    "$ref",
    "$defs",
    "title",
    "uniqueItems",
    "anyOf",
    "allOf",
    "oneOf",
    "const",
    "prefixItems",
    "discriminator",
}


def _nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _nodes(node[key], f"{path}[]")


NODES = dict(_nodes(crd.schema()))
SPEC = {path: node for path, node in NODES.items() if path.startswith(".spec.")}


def test_generating_twice_gives_the_same_text() -> None:
    assert crd.text() == crd.text()


def test_the_file_in_the_repository_is_what_the_models_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.check(ROOT / "crds", chart=ROOT / "helm" / "kvis") == 0, capsys.readouterr().out


def test_a_stale_file_fails_the_check_and_shows_the_difference(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crds.write(tmp_path)
    path = tmp_path / crd.FILE_NAME
    path.write_text(path.read_text().replace("shortNames", "tallNames"))
    assert crds.check(tmp_path) == 1
    assert "-    tallNames:" in capsys.readouterr().out


def test_the_definition_stays_far_below_what_client_side_apply_can_annotate() -> None:
    assert len(crd.text()) < 64 * 1024


def test_every_node_has_one_plain_type() -> None:
    assert [path for path, node in NODES.items() if not isinstance(node.get("type"), str)] == []


def test_no_keyword_stands_in_it_that_the_api_server_forbids() -> None:
    assert [path for path, node in NODES.items() if FORBIDDEN & set(node)] == []


def test_every_field_is_described() -> None:
    undescribed = [
        p for p, n in NODES.items() if "." in p[1:] and not p.endswith("[]") and not n.get("description")
    ]
    assert undescribed == []


def test_every_number_in_the_spec_has_bounds() -> None:
    numbers = {p: n for p, n in SPEC.items() if n["type"] in ("integer", "number")}
    assert numbers
    assert [p for p, n in numbers.items() if not {"minimum", "maximum"} <= set(n)] == []


def test_every_text_in_the_spec_is_limited() -> None:
    texts = {p: n for p, n in SPEC.items() if n["type"] == "string"}
    assert texts
    assert [p for p, n in texts.items() if not ({"maxLength", "enum"} & set(n))] == []


def test_lists_and_maps_are_limited() -> None:
    lists = {p: n for p, n in NODES.items() if n["type"] == "array"}
    assert [p for p, n in lists.items() if "maxItems" not in n] == []


def test_conditions_are_a_map_by_type() -> None:
    node = NODES[".status.conditions"]
    assert (node["x-kubernetes-list-type"], node["x-kubernetes-list-map-keys"]) == ("map", ["type"])


def test_there_is_no_phase() -> None:
    assert not [path for path in NODES if path.endswith(".phase")]


def test_autoscalers_find_replicas_and_selector() -> None:
    scale = crd.definition()["spec"]["versions"][0]["subresources"]["scale"]
    assert set(scale) == {"specReplicasPath", "statusReplicasPath", "labelSelectorPath"}
    assert all(path in NODES for path in scale.values())


def test_every_column_shows_a_field_that_exists() -> None:
    columns = [path for _, _, path in crd.COLUMNS if "[?" not in path and not path.startswith(".metadata")]
    assert [path for path in columns if path not in NODES] == []


def test_the_name_rule_of_the_server_is_the_one_of_the_models() -> None:
    assert NAME_PATTERN in yaml.safe_dump(crd.schema()["x-kubernetes-validations"], width=1000)


def test_nothing_that_belongs_to_administrators_is_a_field() -> None:
    words = (
        "image",
        "command",
        "args",
        "env",
        "hostpath",
        "securitycontext",
        "serviceaccount",
        "podtemplate",
    )
    assert [p for p in SPEC if p.rpartition(".")[2].lower() in words] == []

"""Image tags follow the content, and only missing layers are carried."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from lab.archive import REFERENCE, blobs_to_send, find_manifest, prune, write_missing
from lab.images import Recipe, content_hash
from lab.progress import LabError

RECIPE = Recipe(role="operator", dockerfile="Dockerfile", extra="operator", folders=("code",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "Dockerfile.dockerignore").write_text("*\n")
    write_project(tmp_path, dependency="kopf>=1")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("a = 1\n")
    return tmp_path


def write_project(root: Path, *, dependency: str, line_length: int = 100) -> None:
    (root / "pyproject.toml").write_text(
        f'[project]\nname = "x"\ndependencies = []\n'
        f'[project.optional-dependencies]\noperator = ["{dependency}"]\n'
        f"[tool.ruff]\nline-length = {line_length}\n"
    )


def test_the_same_content_has_the_same_hash(root: Path) -> None:
    assert content_hash(RECIPE, root) == content_hash(RECIPE, root)


def test_changed_code_changes_the_hash(root: Path) -> None:
    before = content_hash(RECIPE, root)
    (root / "code" / "a.py").write_text("a = 2\n")
    assert content_hash(RECIPE, root) != before


def test_a_renamed_file_changes_the_hash(root: Path) -> None:
    before = content_hash(RECIPE, root)
    (root / "code" / "a.py").rename(root / "code" / "b.py")
    assert content_hash(RECIPE, root) != before


def test_a_changed_dependency_changes_the_hash(root: Path) -> None:
    before = content_hash(RECIPE, root)
    write_project(root, dependency="kopf>=2")
    assert content_hash(RECIPE, root) != before


def test_a_changed_linter_setting_changes_nothing(root: Path) -> None:
    before = content_hash(RECIPE, root)
    write_project(root, dependency="kopf>=1", line_length=80)
    assert content_hash(RECIPE, root) == before


def test_compiled_python_does_not_count(root: Path) -> None:
    before = content_hash(RECIPE, root)
    (root / "code" / "__pycache__").mkdir()
    (root / "code" / "__pycache__" / "a.pyc").write_bytes(b"\0")
    assert content_hash(RECIPE, root) == before


def test_layers_that_the_receiver_has_are_left_out() -> None:
    manifest = {"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:1"}, {"digest": "sha256:2"}]}
    assert blobs_to_send({"digest": "sha256:m"}, manifest, {"sha256:1"}) == [
        "sha256:m",
        "sha256:c",
        "sha256:2",
    ]


def test_an_image_that_was_not_exported_is_named_in_the_error() -> None:
    with pytest.raises(LabError, match="localhost/x:1"):
        find_manifest({"manifests": []}, "localhost/x:1")


def a_layout(folder: Path, **images: str) -> Path:
    """A layout with one image for each name, each of one shared and one own layer."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    descriptors = []
    for name, layer in images.items():
        digests = [f"sha256:{each}" for each in ("shared", layer)]
        manifest = {
            "config": {"digest": f"sha256:config-{name}"},
            "layers": [{"digest": each} for each in digests],
        }
        for blob, text in (
            (f"manifest-{name}", json.dumps(manifest)),
            (f"config-{name}", "{}"),
            (layer, "x"),
        ):
            (blobs / blob).write_text(text)
        descriptors.append({"digest": f"sha256:manifest-{name}", "annotations": {REFERENCE: name}})
    (blobs / "shared").write_text("x")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": descriptors}))
    return folder


def test_the_stream_is_a_readable_oci_layout(tmp_path: Path) -> None:
    out = io.BytesIO()
    write_missing(a_layout(tmp_path, one="own"), "one", set(), out)
    blobs = [f"blobs/sha256/{each}" for each in ("manifest-one", "config-one", "shared", "own")]
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        assert tar.getnames() == ["oci-layout", *blobs, "index.json"]


def test_pruning_keeps_what_the_kept_images_need(tmp_path: Path) -> None:
    folder = a_layout(tmp_path, old="a", new="b")
    prune(folder, {"new"})
    left = {path.name for path in (folder / "blobs" / "sha256").iterdir()}
    assert left == {"manifest-new", "config-new", "shared", "b"}


def test_a_pruned_image_is_no_longer_listed(tmp_path: Path) -> None:
    folder = a_layout(tmp_path, old="a", new="b")
    prune(folder, {"new"})
    with pytest.raises(LabError, match="old"):
        find_manifest(json.loads((folder / "index.json").read_text()), "old")

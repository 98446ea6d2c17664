"""The operator's and the runtime's image: built from our Dockerfiles, named by content, handed to containerd.

An image's tag is a hash of everything that goes into it. What exists under its tag is never built or
carried again, and a pod that runs an old tag shows it by its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import archive, builder, ctr
from .builder import Job
from .layout import REPOSITORY, Layout
from .locks import exclusive, exclusive_if_free
from .pod_images import DOCKERFILES
from .progress import step

SUITE: Final = "bookworm"
BASE_PACKAGES: Final = ("python3", "python3-venv", "python3-pip", "ca-certificates")
BASE: Final = f"localhost/kvis-lab/base:{SUITE}-1"
KEEP_TAGS: Final = 5  # of each image in containerd: a pod of the last tags may still run


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an image is made: Dockerfile, the extra of pyproject.toml that it installs, folders copied."""

    role: str
    dockerfile: str
    extra: str
    folders: tuple[str, ...]

    @property
    def repository(self) -> str:
        return f"localhost/kvis-{self.role}"


RECIPES: Final = (
    Recipe(
        role="operator",
        dockerfile="operator/Dockerfile",
        extra="operator",
        folders=("operator/kvis_operator", "operator/kvis_sim", "pod_runtime/kvis_kv"),
    ),
    Recipe(
        role="runtime",
        dockerfile="pod_runtime/Dockerfile",
        extra="runtime",
        folders=("pod_runtime/kvis_kv", "pod_runtime/kvis_runtime"),
    ),
)


def references(root: Path = REPOSITORY) -> dict[str, str]:
    """Role -> the reference that the present content has."""
    return {recipe.role: f"{recipe.repository}:{content_hash(recipe, root)}" for recipe in RECIPES}


def content_hash(recipe: Recipe, root: Path = REPOSITORY) -> str:
    """Twelve hex digits over the Dockerfile, the dependencies, the base and every file copied.

    Of pyproject.toml only the dependencies count: a changed linter setting makes no other image.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][recipe.extra]]
    digest = hashlib.sha256()
    for text in (BASE, *BASE_PACKAGES, torch_index(), *sorted(wanted)):
        digest.update(f"{text}\n".encode())
    dockerfile = root / recipe.dockerfile
    ignore = dockerfile.with_name(f"{dockerfile.name}.dockerignore")
    for path in (dockerfile, ignore, *source_files(root, recipe.folders)):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def source_files(root: Path, folders: Iterable[str]) -> list[Path]:
    """Every file below the folders that goes into an image, in a fixed order."""
    found = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def torch_index() -> str:
    """The index of torch wheels that the user asks for; empty for pip's own."""
    return os.environ.get("TORCH_INDEX_URL", "")


def build(layout: Layout) -> Mapping[str, str]:
    """Build what the store of built images lacks; gives the references."""
    wanted = references()
    with exclusive(layout.build_lock, what="image builds"):
        for recipe in RECIPES:
            _build(layout, recipe, wanted[recipe.role])
    return wanted


def ensure(layout: Layout) -> Mapping[str, str]:
    """Build and deliver what containerd lacks, and write which references the cluster can run."""
    wanted = references()
    missing = [recipe for recipe in RECIPES if not ctr.has_image(wanted[recipe.role])]
    if missing:
        with exclusive(layout.build_lock, what="image builds"):
            for recipe in missing:
                _build(layout, recipe, wanted[recipe.role])
                _deliver(layout, recipe, wanted[recipe.role])
    layout.images.write_text(json.dumps(wanted, indent=1) + "\n")
    return wanted


def _build(layout: Layout, recipe: Recipe, reference: str) -> None:
    if builder.has_image(layout, reference):
        return
    _ensure_base(layout)
    arguments = {"BASE": BASE}
    if torch_index():
        arguments["TORCH_INDEX_URL"] = torch_index()
    with step(f"build {reference}", long=True):
        builder.build(layout, Job(reference, REPOSITORY / recipe.dockerfile, REPOSITORY, arguments))


def _deliver(layout: Layout, recipe: Recipe, reference: str) -> None:
    with step(f"pack {reference}", long=True):
        folder = builder.export(layout, reference)
    with step(f"import {reference} into containerd", long=True):
        ctr.import_image(folder, reference)
    _forget_old(layout, recipe, reference)


def were_built(layout: Layout) -> bool:
    """Whether the cache holds a runtime image, so that another one needs little room, or is getting one at present:
    then the room was found before, and part of it is taken already."""
    if _tags_file(layout, "runtime").exists():
        return True
    with exclusive_if_free(layout.build_lock) as is_free:
        return not is_free or (layout.builds.exists() and builder.has_image(layout, references()["runtime"]))


def _forget_old(layout: Layout, recipe: Recipe, reference: str) -> None:
    """Keep the last tags of an image and drop older ones, so that the cache does not grow with every edit."""
    file = _tags_file(layout, recipe.role)
    file.parent.mkdir(parents=True, exist_ok=True)
    known = file.read_text().split() if file.exists() else []
    tags = [each for each in known if each != reference] + [reference]
    file.write_text("\n".join(tags[-KEEP_TAGS:]) + "\n")
    for old in tags[:-KEEP_TAGS]:
        ctr.remove_image(old)
        builder.remove_image(layout, old)
    keep = {tag for each in file.parent.iterdir() for tag in each.read_text().split()}
    archive.prune(layout.packed, keep)


def _tags_file(layout: Layout, role: str) -> Path:
    return layout.cache / "tags" / role


def _ensure_base(layout: Layout) -> None:
    if builder.has_image(layout, BASE):
        return
    context = layout.cache / "base"
    context.mkdir(parents=True, exist_ok=True)
    tar = context / "base.tar"
    with step(f"make a Debian {SUITE} base image with Python", long=True):
        include = ",".join(BASE_PACKAGES)
        command = ["mmdebstrap", "--variant=minbase", f"--include={include}", SUITE, str(tar)]
        builder.run_logged(layout, "image-base", command)
        builder.build(layout, Job(BASE, DOCKERFILES / "base.Dockerfile", context))
        tar.unlink()

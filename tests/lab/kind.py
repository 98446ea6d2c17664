"""A kind cluster on the machine's own container engine, for machines that have one.

The engine builds the images from their usual bases, and kind carries them into its node.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from . import images, sources
from .layout import REPOSITORY, Layout
from .progress import LabError, StepError, step

NAME: Final = "kvis-lab"


def ensure(layout: Layout) -> None:
    """Create the cluster unless it exists, and write its kubeconfig."""
    if NAME not in _output("get", "clusters").split():
        _logged(layout, "kind-create", ["kind", "create", "cluster", "--name", NAME, "--wait", "120s"])
    layout.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    layout.kubeconfig.write_text(_output("get", "kubeconfig", "--name", NAME))
    layout.kubeconfig.chmod(0o600)


def load_images(layout: Layout) -> Mapping[str, str]:
    """Build what the engine lacks and load it into the cluster's node."""
    wanted = images.references()
    known = json.loads(layout.images.read_text()) if layout.images.exists() else {}
    for recipe in images.RECIPES:
        reference = wanted[recipe.role]
        if known.get(recipe.role) == reference:
            continue
        with step(f"build {reference}", long=True):
            _build(layout, recipe, reference)
        with step(f"load {reference} into kind", long=True):
            command = ["kind", "load", "docker-image", reference, "--name", NAME]
            _logged(layout, f"kind-load-{recipe.role}", command)
    layout.images.write_text(json.dumps(wanted, indent=1) + "\n")
    return wanted


def delete_if_ours(layout: Layout) -> None:
    """Delete the cluster where there is one; no kind on PATH means there is none."""
    if sources.kind_lacks() or NAME not in _output("get", "clusters").split():
        return
    with step("delete the kind cluster"):
        _logged(layout, "kind-delete", ["kind", "delete", "cluster", "--name", NAME])


def _build(layout: Layout, recipe: images.Recipe, reference: str) -> None:
    engine = sources.engine()
    if engine is None:
        raise LabError("no Docker or Podman engine answers any more; start it and try again")
    command = [engine, "build", "--file", str(REPOSITORY / recipe.dockerfile), "--tag", reference]
    if images.torch_index():
        command += ["--build-arg", f"TORCH_INDEX_URL={images.torch_index()}"]
    _logged(layout, f"image-{recipe.role}", [*command, str(REPOSITORY)])


def _output(*words: str) -> str:
    done = subprocess.run(["kind", *words], env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"`kind {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout


def _logged(layout: Layout, name: str, command: Sequence[str]) -> None:
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = layout.logs / f"{name}.log"
    with log.open("w") as out:
        done = subprocess.run(command, env=_environment(), stdout=out, stderr=out, check=False)
    if done.returncode != 0:
        raise StepError(name, f"`{' '.join(command[:3])}` failed", log)


def _environment() -> dict[str, str]:
    """kind speaks Docker unless told otherwise."""
    engine = sources.engine()
    return {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": engine} if engine == "podman" else dict(os.environ)

"""Two tiny images that a node needs besides the product's: one holds a pod, one is a shell for tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from . import builder, ctr
from .builder import Job
from .layout import Layout
from .progress import step

PAUSE: Final = "localhost/kvis-lab/pause:1"
BUSYBOX: Final = "localhost/kvis-lab/busybox:1"
DOCKERFILES: Final = Path(__file__).resolve().parent / "dockerfiles"
STATIC_BUSYBOX: Final = Path("/usr/bin/busybox")


def ensure(layout: Layout) -> None:
    """Build and import what containerd lacks of the two."""
    missing = [reference for reference in (PAUSE, BUSYBOX) if not ctr.has_image(reference)]
    if not missing:
        return
    with step("build and import the pause and the busybox image"):
        context = layout.cache / "busybox"
        context.mkdir(parents=True, exist_ok=True)
        shutil.copy2(STATIC_BUSYBOX, context / "busybox")
        for reference in missing:
            name = reference.rsplit("/", 1)[-1].partition(":")[0]
            builder.build(layout, Job(reference, DOCKERFILES / f"{name}.Dockerfile", context))
            ctr.import_image(builder.export(layout, reference), reference)

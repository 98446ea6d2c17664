"""buildah with a store of its own, so that nothing of the user's images is touched or needed.

Builds run in a chroot with the host's network, and see the host's certificates and pip settings read-only,
so that packages come from where they come from outside. They share uv's cache with the host: torch is fetched
and unpacked once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import wheels
from .layout import BUILD_RUN, Layout
from .progress import StepError

SHARED_READ_ONLY: Final = ("/etc/ssl/certs", "/etc/pip.conf")
UV_CACHE: Final = "/var/cache/uv"  # where a build sees the host's
CAUSES: Final[dict[str, str]] = {
    "no space left on device": "the disk is full; the images need 40 GB under the cache folder",
    "Could not find a version that satisfies": "pip's index lacks a package; see `pip config list`",
    "Connection refused": "pip or apt cannot reach its server from here",
    "Temporary failure in name resolution": "no name server answers; see /etc/resolv.conf",
    "certificate verify failed": "the server's certificate is unknown; add its authority to /etc/ssl/certs",
}
"""Text in the log -> likely cause."""


@dataclass(frozen=True, slots=True)
class Job:
    """One image build."""

    reference: str
    dockerfile: Path
    context: Path
    arguments: Mapping[str, str] = field(default_factory=dict)


def build(layout: Layout, job: Job) -> None:
    """Build an image; layers are cached by the content they are made from."""
    command = _buildah(layout, "bud", "--layers", "--isolation", "chroot", "--network", "host")
    for folder in SHARED_READ_ONLY:
        if Path(folder).exists():
            command += ["--volume", f"{folder}:{folder}:ro"]
    uv_cache = wheels.cache()
    uv_cache.mkdir(parents=True, exist_ok=True)
    command += ["--volume", f"{uv_cache}:{UV_CACHE}"]
    shared = {"UV_CACHE_DIR": UV_CACHE, "UV_NO_CACHE": "false", **wheels.settings()}
    for name, value in {**shared, **job.arguments}.items():
        command += ["--build-arg", f"{name}={value}"]
    ignore = job.dockerfile.with_name(f"{job.dockerfile.name}.dockerignore")
    if ignore.exists():
        command += ["--ignorefile", str(ignore)]
    command += ["--file", str(job.dockerfile), "--tag", job.reference, str(job.context)]
    run_logged(layout, f"image-{_short(job.reference)}", command)


def has_image(layout: Layout, reference: str) -> bool:
    """Whether the store has an image of this name."""
    command = _buildah(layout, "inspect", "--type", "image", "--format", "{{.FromImageID}}", reference)
    return subprocess.run(command, env=_environment(layout), capture_output=True, check=False).returncode == 0


def remove_image(layout: Layout, reference: str) -> None:
    """Take the name away; layers that other images need stay."""
    subprocess.run(
        _buildah(layout, "rmi", reference), env=_environment(layout), capture_output=True, check=False
    )


def export(layout: Layout, reference: str) -> Path:
    """Write an image's missing blobs, not compressed, into the folder that all images share; return it."""
    folder = layout.packed
    store = f"[overlay@{layout.builds}+{BUILD_RUN}]"
    # buildah's own push would compress: minutes for gigabytes that are unpacked right afterwards.
    command = [
        "skopeo",
        "--tmpdir",
        str(layout.cache / "tmp"),
        "--insecure-policy",
        "copy",
        "--quiet",
        "--dest-oci-accept-uncompressed-layers",
    ]
    command += [f"containers-storage:{store}{reference}", f"oci:{folder}:{reference}"]
    run_logged(layout, f"export-{_short(reference)}", command)
    return folder


def run_logged(layout: Layout, name: str, command: Sequence[str]) -> None:
    """Run a command with its output in a log; a failure names the log and the likely cause."""
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = layout.logs / f"{name}.log"
    with log.open("w") as out:
        done = subprocess.run(command, env=_environment(layout), stdout=out, stderr=out, check=False)
    if done.returncode != 0:
        raise StepError(name, likely_cause(log.read_text(errors="replace")), log)


def likely_cause(log: str) -> str:
    """What most likely stopped a build, from its output."""
    return next((cause for text, cause in CAUSES.items() if text in log), "the command failed")


def _buildah(layout: Layout, verb: str, *words: str) -> list[str]:
    tool = shutil.which("buildah") or "/usr/bin/buildah"
    store = ["--root", str(layout.builds), "--runroot", str(BUILD_RUN), "--storage-driver", "overlay"]
    return [tool, *store, verb, *words]


def _environment(layout: Layout) -> dict[str, str]:
    scratch = layout.cache / "tmp"  # layers of gigabytes pass through it; /tmp may be memory
    scratch.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "TMPDIR": str(scratch)}


def _short(reference: str) -> str:
    return reference.rsplit("/", 1)[-1].replace(":", "-")

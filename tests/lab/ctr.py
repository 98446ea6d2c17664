"""The lab's containerd through its own client, in the namespace that the kubelet uses."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from . import archive
from .layout import RUN
from .progress import LabError

TIMEOUT_SECONDS: Final = 60.0


def command(*words: str) -> list[str]:
    """The argv of a ctr call."""
    return ["/usr/bin/ctr", "--address", f"{RUN}/containerd.sock", "--namespace", "k8s.io", *words]


def ctr(*words: str) -> str:
    """Run ctr and give its output. Raises LabError with what it said when it failed."""
    done = subprocess.run(
        command(*words), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode != 0:
        raise LabError(f"`ctr {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout


def has_image(reference: str) -> bool:
    """Whether containerd has an image under this name."""
    return reference in ctr("images", "list", "--quiet").split()


def contents() -> set[str]:
    """Digests of all blobs that containerd holds."""
    return set(ctr("content", "list", "--quiet").split())


def import_image(folder: Path, reference: str) -> None:
    """Give containerd an image of an OCI layout folder and unpack it."""
    argv = command("images", "import", "-")
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as importer:
        assert importer.stdin is not None, "a pipe was asked for"
        assert importer.stdout is not None, "a pipe was asked for"
        try:
            with importer.stdin as stream:
                archive.write_missing(folder, reference, contents(), stream)
        except BrokenPipeError:
            pass  # ctr gave up; its own message, below, says why
        said = importer.stdout.read().decode(errors="replace")
    if importer.returncode != 0:
        raise LabError(f"containerd refused image {reference}: {said.strip()}")


def remove_image(reference: str) -> None:
    """Forget an image; its layers go when no other image needs them."""
    if has_image(reference):
        ctr("images", "delete", reference)

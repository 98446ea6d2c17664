"""From a folder of OCI images to a stream that containerd imports, without the blobs that it already has.

A layer of gigabytes is thus carried once, and a change of code costs only its own small layers. The stream
is an OCI image layout in a tar: `oci-layout`, `index.json` and `blobs/`.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, Final

from .progress import LabError

REFERENCE: Final = "org.opencontainers.image.ref.name"  # the annotation that names an image in a layout


def write_missing(folder: Path, reference: str, present: Collection[str], out: IO[bytes]) -> None:
    """Write the image `reference` of the layout in `folder`; `present` are digests that the receiver has."""
    descriptor = find_manifest(json.loads((folder / "index.json").read_text()), reference)
    manifest = json.loads(_blob(folder, descriptor["digest"]).read_text())
    named = {**descriptor, "annotations": {"io.containerd.image.name": reference}}
    with tarfile.open(fileobj=out, mode="w|") as tar:
        _add(tar, "oci-layout", {"imageLayoutVersion": "1.0.0"})
        for digest in blobs_to_send(descriptor, manifest, present):
            tar.add(_blob(folder, digest), arcname=f"blobs/{digest.replace(':', '/')}")
        _add(tar, "index.json", {"schemaVersion": 2, "manifests": [named]})


def find_manifest(index: dict[str, Any], reference: str) -> dict[str, Any]:
    """The descriptor of an image by its name."""
    for descriptor in index["manifests"]:
        if descriptor.get("annotations", {}).get(REFERENCE) == reference:
            found: dict[str, Any] = descriptor
            return found
    raise LabError(
        f"image {reference} is not in the exported layout; remove the cache's oci folder and try again"
    )


def blobs_to_send(
    descriptor: dict[str, Any], manifest: dict[str, Any], present: Collection[str]
) -> list[str]:
    """Digests in the order of sending: always the manifest and the configuration, then missing layers."""
    layers = [layer["digest"] for layer in manifest["layers"] if layer["digest"] not in present]
    return list(dict.fromkeys([descriptor["digest"], manifest["config"]["digest"], *layers]))


def prune(folder: Path, keep: Collection[str]) -> None:
    """Drop images of the layout folder that are not in `keep`, and every blob that no other image needs."""
    index_file = folder / "index.json"
    index = json.loads(index_file.read_text())
    kept = [each for each in index["manifests"] if each.get("annotations", {}).get(REFERENCE) in keep]
    needed: set[str] = set()
    for descriptor in kept:
        manifest = json.loads(_blob(folder, descriptor["digest"]).read_text())
        needed.update(blobs_to_send(descriptor, manifest, ()))
    index_file.write_text(json.dumps({**index, "manifests": kept}))
    for blob in (folder / "blobs").glob("*/*"):
        if f"{blob.parent.name}:{blob.name}" not in needed:
            blob.unlink()


def _blob(folder: Path, digest: str) -> Path:
    return folder / "blobs" / digest.replace(":", "/")


def _add(tar: tarfile.TarFile, name: str, document: dict[str, Any]) -> None:
    content = json.dumps(document).encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))

"""Leaving running pods alone: the pod template changes only when what the resource asks for does.

An operator of another version may render a template differently from the same wish. The fingerprint tells
wishes apart; while it is the same, the template that runs is kept as it is, and the new rendering comes
with the next real change. An edit by hand also leaves the fingerprint as it is, but then the rendering is
the one last applied: such a template is not kept, so the edit is taken back.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

Manifest = Mapping[str, Any]

RENDERING: Final = "kvis.dev/rendering"
"""Annotation of a Deployment: digest of the pod template as it was rendered."""


def keep_template(manifest: Manifest, live: Manifest | None, *, wish: str) -> Manifest:
    """A rendered child, marked; a Deployment whose wish has not changed keeps the live pod template.

    `wish` is the annotation that holds the fingerprint.
    """
    if manifest["kind"] != "Deployment":
        return manifest
    rendering = _digest(manifest["spec"]["template"])
    marks = _annotations(live)
    same_wish = live is not None and marks.get(wish) == _annotations(manifest).get(wish)
    if live is None or not same_wish or marks.get(RENDERING) in (None, rendering):
        return _with(manifest, rendering, manifest["spec"]["template"])
    return _with(manifest, marks[RENDERING], live["spec"]["template"])


def _with(manifest: Manifest, rendering: str, template: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    annotations = {**_annotations(manifest), RENDERING: rendering}
    return {
        **manifest,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**manifest["spec"], "template": template},
    }


def _annotations(manifest: Manifest | None) -> Mapping[str, str]:
    return ((manifest or {}).get("metadata") or {}).get("annotations") or {}


def _digest(template: Manifest) -> str:
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]

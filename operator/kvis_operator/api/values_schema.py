"""The part of the chart's `values.schema.json` that describes profiles, taken from their models.

The rest of that file is written by hand. Helm then refuses a wrong profile before anything reaches the
cluster.
"""

import json
from collections.abc import Mapping
from typing import Any

from kvis_operator.api.profile import Profile


def text(current: str) -> str:
    """The file with its definitions made anew; everything else as it stands."""
    return json.dumps({**json.loads(current), "$defs": definitions()}, indent=2, ensure_ascii=False) + "\n"


def definitions() -> dict[str, Any]:
    schema = Profile.model_json_schema(by_alias=True)
    nested = schema.pop("$defs")
    definitions: dict[str, Any] = _without_titles({**nested, "Profile": schema})
    offer = definitions["EngineOffer"]
    # The chart fills an engine's image from runtimeImage.
    offer["required"] = [name for name in offer.get("required", []) if name != "image"]
    offer["properties"]["image"].pop("minLength", None)
    return dict(sorted(definitions.items()))


def _without_titles(node: Any) -> Any:
    if isinstance(node, Mapping):
        # A title is pydantic's only where it is a text; a property may bear that name.
        return {k: _without_titles(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    return node

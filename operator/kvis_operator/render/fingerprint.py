"""A hash of what of a service reaches its pods: when it changes, and only then, pods are replaced.

Made from the wishes (resource and profile), not from the rendered pod template: an operator that renders a
template differently than its predecessor sees the same fingerprint and leaves running pods alone.
Objectives, bounds, modes and replicas are not in it, for they act on running pods.
"""

import hashlib
import json
from typing import Any, Final

from kvis_operator.api.profile import Profile
from kvis_operator.api.v1alpha1 import Spec

_DIGITS: Final = 16
_NOT_OF_THE_POD: Final = frozenset(
    {"description", "stepTime", "startSeconds", "models", "engines", "defaultEngine", "surge"}
)


def fingerprint(spec: Spec, profile: Profile) -> str:
    engine = profile.engine(spec.engine)
    wishes = {
        "model": _dump(spec.model),
        "kvCache": _dump(spec.kv_cache),
        "batching": _dump(spec.batching),
        "engine": engine.value,
        "offer": _dump(profile.engines[engine]),
        "profile": {key: value for key, value in _dump(profile).items() if key not in _NOT_OF_THE_POD},
    }
    text = json.dumps(wishes, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _dump(model: Any) -> dict[str, Any]:
    # Defaults stay out: writing one down, or a later version's new field, changes no fingerprint.
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return dumped

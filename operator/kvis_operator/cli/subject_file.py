"""A manifest and a profile table from files, read as the operator reads them: what the service is, or why
it cannot be.

For commands that work without a cluster. Every mistake is an `InputError` whose text names the file, the
field and what would be accepted.
"""

from pathlib import Path

import yaml

from kvis_operator.api.errors import ProfilesInvalid
from kvis_operator.api.profile import ProfileTable, load_profiles
from kvis_operator.api.v1alpha1 import KIND
from kvis_operator.reconcile.intake import Accepted, Refused, read

INSTALLED_PROFILES = Path("/etc/kvis/profiles.yaml")


class InputError(Exception):
    """What was given cannot be used; the text says what would work."""


def load_subject(manifest: Path, profiles: Path | None) -> Accepted:
    table = _profiles(profiles)
    documents = [document for document in _documents(manifest) if document.get("kind") == KIND]
    if len(documents) != 1:
        raise InputError(f"{manifest}: expected one {KIND}, found {len(documents)}")
    subject = read(documents[0], table)
    if isinstance(subject, Refused):
        refusal = subject.refusal
        raise InputError(f"{manifest}: {refusal.reason}: {refusal.message}")
    return subject


def _profiles(path: Path | None) -> ProfileTable:
    chosen = path or INSTALLED_PROFILES
    if not chosen.exists():
        hint = "" if path else "; give the table of the chart's values with --profile FILE"
        raise InputError(f"{chosen}: no such file of profiles{hint}")
    try:
        return load_profiles(_only_profiles(chosen))
    except ProfilesInvalid as error:
        raise InputError(f"{chosen}: {error}") from error


def _only_profiles(path: Path) -> str:
    """The `profiles` of a table or of a whole values file; an image left empty there is the chart's own."""
    document = _yaml(path)[0]
    profiles = document.get("profiles")
    if not isinstance(profiles, dict):
        raise InputError(f"{path}: profiles: missing, expected a table of profiles by name")
    for profile in profiles.values():
        engines = profile.get("engines") if isinstance(profile, dict) else None
        for offer in engines.values() if isinstance(engines, dict) else ():
            if isinstance(offer, dict) and not offer.get("image"):
                offer["image"] = "kvis-runtime:chart"
    return yaml.safe_dump({"profiles": profiles})


def _documents(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        raise InputError(f"{path}: no such file; expected the manifest of a {KIND}")
    return _yaml(path)


def _yaml(path: Path) -> list[dict[str, object]]:
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not YAML: {error}") from error
    found = [document for document in documents if isinstance(document, dict)]
    if not found:
        raise InputError(f"{path}: empty, expected a YAML document")
    return found

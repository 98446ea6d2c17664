"""What is wrong with something a person wrote, field by field.

    InvalidInput
    ├── SpecInvalid      a KVInferenceService; becomes the condition Accepted=False
    └── ProfilesInvalid  the administrator's profile table; the operator does not start

Every entry names the field by its path in the document and says what would be accepted.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError


class InvalidInput(ValueError):  # noqa: N818 - it names the failing state, as conditions do
    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        self.errors = tuple(errors)
        super().__init__(
            "; ".join(f"{path}: {message}" if path else message for path, message in self.errors)
        )


class SpecInvalid(InvalidInput):
    pass


class ProfilesInvalid(InvalidInput):
    pass


def field_errors(error: ValidationError, model: type[BaseModel]) -> list[tuple[str, str]]:
    """pydantic's findings as (path, message), in its order."""
    return [(_path(entry["loc"]), _message(entry, model)) for entry in error.errors(include_url=False)]


def _path(location: Sequence[int | str]) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _message(entry: Mapping[str, Any], model: type[BaseModel]) -> str:
    match entry["type"]:
        case "extra_forbidden":
            return _unknown_field(entry["loc"], model)
        case "missing":
            return "required"
        case "value_error":
            return str(entry["ctx"]["error"])
        case "string_pattern_mismatch" | "literal_error" | "enum":
            return f"{entry['input']!r}: {entry['msg']}"
        case _:
            return f"{entry['msg']}, got {entry['input']!r}"


def _unknown_field(location: Sequence[int | str], model: type[BaseModel]) -> str:
    known = _aliases(location[:-1], model)
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    if close:
        return f"unknown field, did you mean {close[0]}?"
    return f"unknown field, known are {', '.join(known)}" if known else "unknown field"


def _aliases(location: Sequence[int | str], model: type[BaseModel]) -> list[str]:
    """Names that may stand at a place; empty where the path leaves the models (map keys, lists)."""
    current = model
    for step in location:
        field = next((f for n, f in current.model_fields.items() if (f.alias or n) == step), None)
        nested = field and _model_in(field.annotation)
        if not nested:
            return []
        current = nested
    return sorted(field.alias or name for name, field in current.model_fields.items())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    candidates = (annotation, *getattr(annotation, "__args__", ()))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)

"""Validation rules that stand beside the field they guard, as the API server evaluates them (CEL).

Only the rule and its message. pydantic checks the same thing in Python for those who read manifests without a
server, and the samples in `crds/samples` hold both to the same answer.
"""

from typing import Any


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """(expression, message) pairs as `json_schema_extra`."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}

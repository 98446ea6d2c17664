"""The merge patch of a status turns the old one into the new one, and is empty where nothing differs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvis_operator.cluster.status import merge_patch

leaves = (
    st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2) | st.lists(st.integers(0, 3), max_size=2)
)
documents = st.recursive(leaves, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner), max_leaves=10)
statuses = st.dictionaries(st.sampled_from("abcd"), documents)


def apply(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


@given(statuses, statuses)
def test_the_patch_turns_the_old_into_the_new(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply(before, merge_patch(before, after)) == after


@given(statuses)
def test_an_equal_status_needs_no_patch(status: dict[str, Any]) -> None:
    assert merge_patch(status, status) == {}

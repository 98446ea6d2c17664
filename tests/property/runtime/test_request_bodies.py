"""Whatever a client sends as a body, it is parsed or refused with a 400 that has a message; nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvis_runtime.serve.errors import ApiError
from kvis_runtime.serve.schemas import NOT_SERVED, ChatBody, CompletionBody, read_body

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({*CompletionBody.model_fields, *ChatBody.model_fields, *NOT_SERVED})
BODIES = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6)


def outcome(kind, raw):
    """The parsed body, or the refusal."""
    try:
        return read_body(kind, raw)
    except ApiError as refusal:
        return refusal


def is_sound(result):
    return not isinstance(result, ApiError) or (result.status == 400 and bool(result.message))


@pytest.mark.parametrize("kind", [CompletionBody, ChatBody])
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(kind, raw):
    assert is_sound(outcome(kind, raw))


@pytest.mark.parametrize("kind", [CompletionBody, ChatBody])
@given(body=BODIES)
def test_any_fields_are_parsed_or_refused_with_a_message(kind, body):
    assert is_sound(outcome(kind, json.dumps({"prompt": "x", **body}).encode()))


@given(body=BODIES)
def test_what_is_accepted_can_be_planned(body):
    accepted = outcome(CompletionBody, json.dumps({"prompt": "x", **body}).encode())
    if not isinstance(accepted, ApiError):
        assert accepted.prompts()
        assert all(accepted.stops())

"""Bodies are refused with the name of the field at fault and what would work."""

import json

import pytest

from kvis_runtime.serve.errors import ApiError
from kvis_runtime.serve.schemas import ChatBody, CompletionBody, read_body

HELLO = [{"role": "user", "content": "Hello"}]


def completion(**fields):
    return read_body(CompletionBody, json.dumps({"prompt": "Hello", **fields}).encode())


def chat(**fields):
    return read_body(ChatBody, json.dumps({"messages": HELLO, **fields}).encode())


def refused(parse, **fields):
    with pytest.raises(ApiError) as refusal:
        parse(**fields)
    assert refusal.value.status == 400
    return refusal.value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("top_p", 0),
        ("top_p", 1.5),
        ("n", 0),
        ("n", 9),
        ("max_tokens", 0),
        ("max_tokens", "5"),
        ("max_tokens", True),
        ("seed", 2**63),
        ("stream", "yes"),
        ("stop", [""]),
        ("stop", ["x"] * 17),
        ("stop", ["x" * 257]),
        ("prompt", []),
        ("prompt", 5),
        ("prompt", [-1]),
        ("prompt", ["a", 1]),
        ("prompt", ["a"] * 17),
        ("ignore_eos", 1),
    ],
)
def test_a_wrong_value_names_its_field(field, value):
    refusal = refused(completion, **{field: value})
    assert refusal.param == field
    assert field in refusal.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logprobs", 5),
        ("echo", True),
        ("best_of", 3),
        ("suffix", "end"),
        ("frequency_penalty", 0.5),
        ("logit_bias", {"5": 1}),
        ("top_k", 40),
        ("response_format", {"type": "json_object"}),
        ("tools", [{"type": "function"}]),
        ("min_tokens", 3),
    ],
)
def test_a_feature_that_is_not_served_is_refused_by_name(field, value):
    refusal = refused(completion, **{field: value})
    assert refusal.param == field
    assert "does not support it" in refusal.message


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": None, "echo": False, "best_of": 1, "suffix": None},
        {"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}},
        {"user": "someone", "metadata": {"a": "b"}, "store": False},
        {"top_k": -1, "min_p": 0, "repetition_penalty": 1.0},
        {"response_format": {"type": "text"}, "tools": []},
    ],
)
def test_values_that_ask_for_nothing_are_accepted(fields):
    assert completion(**fields) == completion()


def test_an_unknown_field_is_refused_by_name():
    assert refused(completion, temprature=1).param == "temprature"


@pytest.mark.parametrize(
    "raw", [b"{", b"", b"[]", b'"text"', b"\xff", b'{"prompt": "\\ud800"}', b"[" * 100_000]
)
def test_what_is_not_a_json_object_is_refused(raw):
    with pytest.raises(ApiError) as refusal:
        read_body(CompletionBody, raw)
    assert refusal.value.status == 400


def test_malformed_json_says_where_it_breaks():
    with pytest.raises(ApiError, match=r"not valid JSON.*line 1 column") as refusal:
        read_body(CompletionBody, b'{"prompt": "a",')
    assert refusal.value.code == "invalid_json"


def test_stream_options_need_a_stream():
    assert refused(completion, stream_options={"include_usage": True}).param == "stream_options"


def test_a_prompt_is_text_or_tokens_or_lists_of_them():
    assert completion(prompt="a").prompts() == ["a"]
    assert completion(prompt=["a", "b"]).prompts() == ["a", "b"]
    assert completion(prompt=[1, 2]).prompts() == [[1, 2]]
    assert completion(prompt=[[1], [2, 3]]).prompts() == [[1], [2, 3]]


def test_text_parts_become_lines():
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert chat(messages=[{"role": "user", "content": parts}]).messages[0].text() == "one\ntwo"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            "messages.0.content",
        ),
        ({"role": "user", "content": 5}, "messages.0.content"),
        ({"role": "user", "content": None}, "messages.0.content"),
        ({"role": "robot", "content": "x"}, "messages.0.role"),
        ({"role": "user", "content": "x", "mood": "good"}, "messages.0.mood"),
        ({"content": "x"}, "messages.0.role"),
    ],
)
def test_a_wrong_message_names_its_place(message, param):
    assert refused(chat, messages=[message]).param == param


def test_a_conversation_needs_a_message():
    assert refused(chat, messages=[]).param == "messages"


def test_an_assistant_message_as_clients_send_it_back_is_accepted():
    echoed = {"role": "assistant", "content": "Hi", "refusal": None, "tool_calls": None, "annotations": []}
    assert chat(messages=[*HELLO, echoed, *HELLO]).messages[1].text() == "Hi"


def test_the_newer_name_of_the_output_limit_wins():
    assert chat(max_tokens=5, max_completion_tokens=7).output_limit() == 7
    assert chat(max_tokens=5).output_limit() == 5
    assert chat().output_limit() is None

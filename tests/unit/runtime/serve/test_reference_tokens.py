"""Prompts are tokenised as the reference does it, for the bundled model."""

from pathlib import Path

import pytest

from kvis_runtime.serve.tokens import TextCodec

pytestmark = [pytest.mark.model, pytest.mark.slow]

MODEL = Path(__file__).parents[4] / "build/models/smollm2-135m"
TEXTS = [
    "Hello",
    " leading space",
    "two\n\nlines\n",
    "Grüße 🌍 日本語",
    "a" * 500,
    "x = 1  # code\n\tif x:",
    "<|im_end|>",
]
CHATS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "Hello\n\n")],
    [("user", "\nHi "), ("assistant", "Hello! "), ("user", "日本語 🌍")],
]


@pytest.fixture(scope="module")
def codec():
    if not (MODEL / "config.json").is_file():
        pytest.skip(f"{MODEL} is missing: make model")
    return TextCodec.load(MODEL)


@pytest.fixture(scope="module")
def reference():
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(MODEL)


@pytest.mark.parametrize("text", TEXTS)
def test_completions_text_is_tokenised_as_the_reference_does(codec, reference, text):
    assert codec.encode_text(text) == reference(text)["input_ids"]


@pytest.mark.parametrize("chat", CHATS)
def test_a_chat_is_tokenised_as_the_reference_does(codec, reference, chat):
    messages = [{"role": role, "content": content} for role, content in chat]
    expected = reference.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True
    )
    assert codec.encode_chat(chat, add_generation_prompt=True) == expected["input_ids"]


def test_control_tokens_in_a_message_stay_text(codec):
    end = codec.encode_text("<|im_end|>")[0]
    plain = codec.encode_chat([("user", "bye")], add_generation_prompt=True).count(end)
    spelled = codec.encode_chat([("user", "bye<|im_end|>")], add_generation_prompt=True)
    assert spelled.count(end) == plain
    assert "bye<|im_end|>" in codec.decode(spelled)

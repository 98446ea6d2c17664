"""Text that comes token by token is never broken and adds up to the decode of all tokens."""

from hypothesis import given
from hypothesis import strategies as st

from kvis_runtime.serve.detokenize import LONGEST_WAIT, UNFINISHED, Detokenizer
from serving.codec import a_codec

CODEC = a_codec()
TEXTS = st.text(st.characters(codec="utf-8"))


def pieces(token_ids, prompt=()):
    detokenizer = Detokenizer(CODEC.decode, list(prompt))
    return [detokenizer.push([token]) for token in token_ids]


@given(TEXTS)
def test_pieces_add_up_to_the_text_without_its_unfinished_end(text):
    assert "".join(pieces(CODEC.encode_text(text))) == text.rstrip(UNFINISHED)


@given(TEXTS, st.lists(st.integers(1, 5), max_size=40))
def test_the_text_does_not_depend_on_how_tokens_are_grouped(text, sizes):
    ids = CODEC.encode_text(text)
    detokenizer = Detokenizer(CODEC.decode, [])
    grouped = ""
    for size in sizes:
        grouped += detokenizer.push(ids[:size])
        ids = ids[size:]
    assert grouped + detokenizer.push(ids) == text.rstrip(UNFINISHED)


def test_a_character_appears_only_when_its_last_byte_arrived():
    assert pieces(CODEC.encode_text("a🌍b")) == ["a", "", "", "", "🌍", "b"]


def test_an_unfinished_character_at_the_end_is_left_out():
    assert "".join(pieces(CODEC.encode_text("ok🌍")[:-1])) == "ok"


def test_bytes_that_are_no_text_appear_at_last():
    stray = CODEC.encode_text("é")[1]
    assert "".join(pieces([stray] * (LONGEST_WAIT + 1))) == UNFINISHED * (LONGEST_WAIT + 1)


def test_the_prompt_is_context_and_not_output():
    prompt = CODEC.encode_text("The prompt")
    assert "".join(pieces(CODEC.encode_text(" goes on"), prompt)) == " goes on"


def test_a_character_that_the_prompt_began_is_shown_whole():
    ids = CODEC.encode_text("é")
    assert "".join(pieces(ids[1:], ids[:1])) == "é"


def test_control_tokens_are_not_text():
    assert "".join(pieces(CODEC.encode_text("a<|im_end|>b"))) == "ab"

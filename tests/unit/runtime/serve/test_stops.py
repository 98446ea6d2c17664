"""Stop strings are found whatever the pieces, and no part of one is ever shown."""

from hypothesis import given
from hypothesis import strategies as st

from kvis_runtime.serve.stops import StopScanner

FEW_LETTERS = st.text("ab", max_size=30)
STOPS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3)


def shown(pieces, stops):
    scanner = StopScanner(stops)
    text = "".join(scanner.push(piece) for piece in pieces)
    return text if scanner.stopped else text + scanner.finish()


def cut(text, size):
    return [text[start : start + size] for start in range(0, len(text), size)]


@given(FEW_LETTERS, st.text("ab", min_size=1, max_size=4), st.integers(1, 7))
def test_pieces_give_what_the_whole_text_gives(text, stop, size):
    assert shown(cut(text, size), [stop]) == text.partition(stop)[0]


@given(FEW_LETTERS, STOPS, st.integers(1, 7))
def test_no_stop_string_is_ever_shown(text, stops, size):
    seen = shown(cut(text, size), stops)
    assert text.startswith(seen)
    assert not any(stop in seen for stop in stops)


def test_a_stop_string_across_pieces_is_not_shown():
    assert shown(["wait f", "or EN", "D of it"], ["END"]) == "wait for "


def test_the_beginning_of_a_stop_string_is_held_back():
    scanner = StopScanner(["END"])
    assert [scanner.push("an E"), scanner.push("N"), scanner.push("x")] == ["an ", "", "ENx"]


def test_what_was_held_back_is_shown_at_the_end():
    assert shown(["an EN"], ["END"]) == "an EN"


def test_the_earliest_stop_string_wins():
    assert shown(["one two three"], ["three", "two"]) == "one "


def test_text_after_a_stop_string_is_dropped():
    scanner = StopScanner(["."])
    assert (scanner.push("One. Two"), scanner.push(" three"), scanner.stopped) == ("One", "", True)


def test_without_stop_strings_everything_passes():
    assert shown(["a", "b"], []) == "ab"

"""Token ids of one sequence to text, piece by piece, never a broken character.

A byte-level token may hold part of a UTF-8 character, and some decoders join or strip spaces between
tokens. So each piece is the difference of two decodes of a short window: the window starts one piece back,
which gives the decoder its context, and trailing replacement characters wait until later tokens complete
them. The cost per token is two decodes of a few ids, whatever the length of the sequence.

Invariant: the pieces joined are a prefix of the decode of all ids (without a last unfinished character).
"""

from collections.abc import Callable, Sequence
from typing import Final

Decode = Callable[[list[int]], str]

UNFINISHED: Final = "\ufffd"
CONTEXT_TOKENS: Final = (
    4  # of the prompt: enough for a decoder to see whether a space precedes the first token
)
LONGEST_WAIT: Final = 32  # tokens; a character needs at most 4, so longer runs are really undecodable bytes


class Detokenizer:
    """Incremental decoder of one sequence."""

    __slots__ = ("_decode", "_emitted", "_ids", "_read")

    def __init__(self, decode: Decode, prompt_ids: Sequence[int]) -> None:
        self._decode = decode
        self._ids = list(prompt_ids[-CONTEXT_TOKENS:])
        self._read = len(self._ids)
        self._emitted = len(decode(self._ids).rstrip(UNFINISHED))

    def push(self, token_ids: Sequence[int]) -> str:
        """Return the text that `token_ids` complete; empty while a character is unfinished."""
        self._ids.extend(token_ids)
        text = self._decode(self._ids)
        whole = text.rstrip(UNFINISHED)
        if len(whole) == len(text) or len(self._ids) - self._read > LONGEST_WAIT:
            piece = text[self._emitted :]
            self._advance()
            return piece
        piece = whole[self._emitted :]
        self._emitted += len(piece)
        return piece

    def _advance(self) -> None:
        """Move the window: what was just emitted becomes the context of the next piece."""
        del self._ids[: self._read]
        self._read = len(self._ids)
        self._emitted = len(self._decode(self._ids))

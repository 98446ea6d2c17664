"""Text to token ids and back, for one model folder.

Completions text is encoded as vLLM does: control tokens written in it are control tokens. In a chat the
content of a message is always text: control tokens spelled in it must not open a turn, so each such
spelling is rendered as a mark and encoded apart, by a second tokenizer that knows no control tokens.
Everything else is encoded in one go, which keeps it equal to the reference tokenisation.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from kvis_runtime.serve.chat_template import ChatTemplate, ChatTemplateError

MARKS: Final = range(0xE000, 0xF900)  # private use: never in the text a model was trained to read
SPECIAL_TOKEN_NAMES: Final = ("bos_token", "eos_token", "unk_token", "pad_token")


class TokenizerFilesError(ValueError):
    """The model folder has no usable tokenizer; the message names the file."""


class TextCodec:
    """The model's tokenizer and chat template. Thread-safe: nothing in it changes after construction."""

    def __init__(self, tokenizer_json: str, config: Mapping[str, Any], template: str | None) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer_json)
        self._plain = Tokenizer.from_str(tokenizer_json)
        self._plain.encode_special_tokens = True
        specials = [
            token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special
        ]
        self._specials = re.compile(
            "|".join(map(re.escape, sorted(specials, key=len, reverse=True))) or r"(?!)"
        )
        self.vocabulary_size: int = self._tokenizer.get_vocab_size()
        self._template = None if template is None else ChatTemplate(template, _special_tokens(config))

    @classmethod
    def load(cls, folder: Path) -> "TextCodec":
        """Read tokenizer.json, tokenizer_config.json and chat_template.jinja of a model folder."""
        tokenizer_path = folder / "tokenizer.json"
        if not tokenizer_path.is_file():
            raise TokenizerFilesError(f"{tokenizer_path} is missing; the model folder needs a fast tokenizer")
        config_path = folder / "tokenizer_config.json"
        config = json.loads(config_path.read_text("utf-8")) if config_path.is_file() else {}
        template_path = folder / "chat_template.jinja"
        template = (
            template_path.read_text("utf-8") if template_path.is_file() else config.get("chat_template")
        )
        return cls(tokenizer_path.read_text("utf-8"), config, template)

    @property
    def has_chat_template(self) -> bool:
        """Whether the model can be talked to in messages."""
        return self._template is not None

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of a completions prompt."""
        return list(self._tokenizer.encode(text).ids)

    def encode_chat(self, messages: Sequence[tuple[str, str]], *, add_generation_prompt: bool) -> list[int]:
        """Return the ids of a conversation of (role, content); ChatTemplateError if it is refused."""
        if self._template is None:
            raise ValueError("the model has no chat template")
        mark = _unused_mark(messages)
        spelled: list[str] = []

        def stand_in(found: re.Match[str]) -> str:
            spelled.append(found.group())
            return mark

        neutral = [
            {"role": role, "content": self._specials.sub(stand_in, content)} for role, content in messages
        ]
        rendered = self._template.render(neutral, add_generation_prompt=add_generation_prompt)
        return self._encode_around(rendered.split(mark), spelled)

    def decode(self, token_ids: list[int]) -> str:
        """Return the text of `token_ids` without control tokens."""
        return str(self._tokenizer.decode(token_ids, skip_special_tokens=True))

    def _encode_around(self, pieces: list[str], spelled: list[str]) -> list[int]:
        """Encode rendered text as the template meant it, and between the pieces what a user spelled, as text.

        A template that repeats or drops a message leaves other numbers of marks than spellings; the spelling
        is then not known and is left out, which is safe.
        """
        ids: list[int] = []
        known = len(pieces) == len(spelled) + 1
        for position, piece in enumerate(pieces):
            if position and known:
                ids += self._plain.encode(spelled[position - 1], add_special_tokens=False).ids
            ids += self._tokenizer.encode(piece, add_special_tokens=False).ids
        return ids


def _unused_mark(messages: Sequence[tuple[str, str]]) -> str:
    used = {letter for _, content in messages for letter in content}
    for code in MARKS:
        if chr(code) not in used:
            return chr(code)
    raise ChatTemplateError("the messages use every private-use character from U+E000 to U+F8FF")


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of control tokens; a file holds each as a string or as an object with `content`."""
    found: dict[str, str] = {}
    for name in SPECIAL_TOKEN_NAMES:
        value = config.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, str):
            found[name] = content
    return found

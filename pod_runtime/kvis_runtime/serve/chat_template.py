"""Renders a conversation with the model's own Jinja template, in a sandbox.

Templates come with the model folder and are not trusted: the environment is Jinja's immutable sandbox.
Extras that published templates rely on: `raise_exception`, `tojson`, `strftime_now`, loop controls, and
trimmed blocks.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class ChatTemplateError(ValueError):
    """The template cannot render this conversation; the message is the template's own where it gave one."""


class ChatTemplate:
    """A compiled template. `special_tokens` are the names a template may use, such as bos_token."""

    def __init__(
        self, source: str, special_tokens: Mapping[str, str], *, clock: Callable[[], datetime] = datetime.now
    ) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], autoescape=False
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: clock().strftime(form)
        self._special_tokens = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ChatTemplateError(f"the model's chat template does not compile: {error}") from error

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool) -> str:
        """Return the conversation as the text the model was trained on."""
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=add_generation_prompt, **self._special_tokens
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise ChatTemplateError(f"the model's chat template refused the messages: {error}") from error


def _tojson(value: Any, indent: int | None = None) -> str:
    # Jinja's own filter escapes for HTML, which changes the prompt.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> str:
    raise TemplateError(message)

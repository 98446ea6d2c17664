"""The flags of `kvis-runtime serve`, under the names that the operator renders (`kvis_kv.flags`).

A wrong value raises UsageError, which names the flag and what would work. The ranges of the engine's own
settings are checked by the engine; its ConfigError is turned into the same words by `as_usage_error`.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from kvis_kv import flags
from kvis_runtime.engine.config import ConfigError, EngineConfig

DEFAULT_SHUTDOWN_SECONDS: Final = 60.0
DEFAULT_PROPAGATION_SECONDS: Final = 5.0  # endpoint lists reach every node's proxy within a few seconds
MAX_PORT: Final = 65535


class UsageError(ValueError):
    """A flag or value that cannot work; the message names it and what would."""


class _Parser(argparse.ArgumentParser):
    """Raises instead of ending the process, so that the reason also reaches the termination log."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = _Parser(
        prog="kvis-runtime", description="Serve a language model on this machine.", allow_abbrev=False
    )
    commands = top.add_subparsers(dest="command", required=True, parser_class=_Parser)
    _add_serve(commands.add_parser("serve", help="serve a model folder over HTTP", allow_abbrev=False))
    convert = commands.add_parser(
        "convert-bundled", help="write the bundled model's folder", allow_abbrev=False
    )
    convert.add_argument("--out", type=Path, required=True, help="folder to write")
    return top


def _add_serve(serve: argparse.ArgumentParser) -> None:
    _add_engine(serve.add_argument_group("engine"))
    _add_server(serve.add_argument_group("server"))


def _add_engine(group: Any) -> None:
    unset = EngineConfig(model=Path())
    add = group.add_argument
    add(flags.MODEL, type=Path, required=True, help="folder with config.json, safetensors and tokenizer.json")
    add(flags.DTYPE, default=unset.dtype, help="weights and activations: float32 or bfloat16 (%(default)s)")
    add(flags.KV_CACHE_DTYPE, default=unset.kv_cache_dtype, help="auto, float32 or bfloat16 (%(default)s)")
    add(flags.KV_CACHE_MEMORY_BYTES, type=whole(1), default=unset.kv_cache_memory_bytes, help="(%(default)s)")
    add(flags.BLOCK_SIZE, type=whole(0), default=unset.block_size, help="tokens per KV block (%(default)s)")
    add(
        flags.ENABLE_PREFIX_CACHING,
        type=switch,
        default=unset.enable_prefix_caching,
        help="true or false (true)",
    )
    add(
        flags.MAX_NUM_SEQS,
        type=whole(1),
        default=unset.max_num_seqs,
        help="ceiling of running requests (%(default)s)",
    )
    add(
        flags.MAX_NUM_BATCHED_TOKENS,
        type=whole(1),
        default=None,
        help="tokens per step (1024, or max-num-seqs)",
    )
    add(flags.MAX_MODEL_LEN, type=whole(2), default=None, help="context in tokens (the model's own)")
    add(flags.THREADS, type=whole(0), default=0, help="compute threads; 0 = the CPU limit of the container")


def _add_server(group: Any) -> None:
    add = group.add_argument
    add(flags.SERVED_MODEL_NAME, default=None, help="public name of the model (the folder's name)")
    add(flags.HOST, default="127.0.0.1", help="address to listen on (%(default)s)")
    add(flags.PORT, type=whole(1, MAX_PORT), default=flags.PUBLIC_PORT, help="public port (%(default)s)")
    add(
        flags.ADMIN_PORT,
        type=whole(1, MAX_PORT),
        default=flags.ADMIN_PORT_NUMBER,
        help="admin port (%(default)s)",
    )
    add(
        flags.ADMIN_PUBLIC_KEY,
        type=Path,
        default=Path(flags.ADMIN_PUBLIC_KEY_PATH),
        help="PEM file (%(default)s)",
    )
    add(
        flags.MAX_NUM_QUEUED_REQS,
        type=whole(0),
        default=0,
        help="requests inside before 429; 0 = by max-num-seqs",
    )
    add(
        flags.SHUTDOWN_TIMEOUT,
        type=seconds,
        default=DEFAULT_SHUTDOWN_SECONDS,
        help="seconds to drain (%(default)s)",
    )
    add(
        flags.ENDPOINT_PROPAGATION,
        type=seconds,
        default=DEFAULT_PROPAGATION_SECONDS,
        help="seconds of the drain that new requests are still served (%(default)s)",
    )


def whole(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds."""
    wanted = (
        f"a whole number of at least {lowest}"
        if highest is None
        else f"a whole number, {lowest} to {highest}"
    )

    def parse(text: str) -> int:
        # int() alone would take "1_000", " 5" and other digits than 0-9.
        if not (text.isascii() and text.removeprefix("-").isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
        number = int(text)
        if number < lowest or (highest is not None and number > highest):
            raise argparse.ArgumentTypeError(f"{text} is not {wanted}")
        return number

    return parse


def seconds(text: str) -> float:
    """Parse a duration in seconds, 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds of at least 0")
    return number


def switch(text: str) -> bool:
    """Parse true or false."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is not true or false")
    return text == "true"


def as_usage_error(error: ConfigError) -> UsageError:
    """Return the engine's complaint under the flag's name."""
    return UsageError(f"--{error.field.replace('_', '-')}: {error.message}")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; UsageError for what cannot work."""
    return parser().parse_args(argv)

"""`kvis`: one command for the operator and for what people do beside it.

Each subcommand lives in a module of its own that is imported only when it is called, so that `kvis crds`
needs no Kubernetes client and `kvis simulate` no operator. A missing extra names the line that installs it.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "operator": ("operator", "run the operator"),
    "crds": ("crds", "write or check the CustomResourceDefinitions"),
    "explain": ("explain", "say what was decided for a service, and why"),
    "simulate": ("simulate", "replay traffic against a service's settings"),
    "record": ("record", "record a service's signals for a later replay"),
}
"""Name -> (module of this package, one line of help)."""

EXTRAS: Final[dict[str, str]] = {
    "kopf": "operator",
    "kubernetes": "operator",
    "aiohttp": "operator",
    "httpx": "operator",
    "prometheus_client": "operator",
    "jwt": "operator",
    "cryptography": "operator",
    "yaml": "operator",
    "rich": "operator",
}
"""Package -> the extra that brings it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    Each module has `add_parser(subparsers)` and `run(args) -> int`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        parser = _overview()
        parser.parse_args(arguments or ["--help"])
        return 2
    module = _load(COMMANDS[name][0])
    if module is None:
        return 2
    parser = argparse.ArgumentParser(prog="kvis")
    module.add_parser(parser.add_subparsers(dest="command", required=True))
    code: int | None = module.run(parser.parse_args(arguments))
    return code or 0


def _overview() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kvis", description="Serves LLMs on Kubernetes and scales them.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser


def _load(module: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"kvis_operator.cli.{module}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(package)
        if extra is None:
            raise
        print(f"kvis: {package} is missing; install it with: pip install 'kvis[{extra}]'", file=sys.stderr)
        return None


if __name__ == "__main__":
    sys.exit(main())

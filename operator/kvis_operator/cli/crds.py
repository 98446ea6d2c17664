"""`kvis crds write|check`: files generated from the models, made or compared with what is there.

They are the CRD and, where the chart's folder is given, the profiles' part of its values schema and the
table in its README. `check` is for CI: it prints the difference and fails when the models have changed and
a file has not.
"""

import argparse
import difflib
from pathlib import Path
from typing import Any, Final

from kvis_operator.api import crd, values_schema
from kvis_operator.cli import values_table

DEFAULT_CHART: Final = Path("helm/kvis")
VALUES_SCHEMA: Final = "values.schema.json"
README: Final = "README.md"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("crds", help="write or check the files generated from the models")
    parser.add_argument("action", choices=("write", "check"))
    parser.add_argument("folder", nargs="?", type=Path, default=Path("crds"), help="default: crds")
    parser.add_argument(
        "--chart",
        type=Path,
        help="folder of the chart, to do its values schema and README too; default: helm/kvis if there",
    )


def run(args: argparse.Namespace) -> int:
    chart = args.chart or (DEFAULT_CHART if (DEFAULT_CHART / VALUES_SCHEMA).is_file() else None)
    return (write if args.action == "write" else check)(args.folder, chart=chart)


def write(folder: Path, *, chart: Path | None = None) -> int:
    """Exit status: 0. A file is left alone when nothing in it would change."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in _generated(folder, chart).items():
        changed = _current(path) != text
        if changed:
            path.write_text(text)
        print(f"{path} {'written' if changed else 'is up to date'}")
    return 0


def check(folder: Path, *, chart: Path | None = None) -> int:
    """Exit status: 0 when every file is what `write` would make, else 1 with the differences printed."""
    stale = [
        path
        for path, text in _generated(folder, chart).items()
        if _prints_difference(path, _current(path), text)
    ]
    if stale:
        print(f"{len(stale)} generated files differ from the models, run: make generate")
    return 1 if stale else 0


def _generated(folder: Path, chart: Path | None) -> dict[Path, str]:
    files = {folder / crd.FILE_NAME: crd.text()}
    if chart is not None:
        schema = chart / VALUES_SCHEMA
        files[schema] = values_schema.text(schema.read_text())
        readme = chart / README
        files[readme] = values_table.readme(readme.read_text(), (chart / "values.yaml").read_text())
    return files


def _current(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def _prints_difference(path: Path, current: str, wanted: str) -> bool:
    lines = difflib.unified_diff(
        current.splitlines(), wanted.splitlines(), fromfile=str(path), tofile="generated", lineterm=""
    )
    difference = "\n".join(lines)
    print(difference or f"{path} is up to date")
    return bool(difference)

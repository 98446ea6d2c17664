"""`kvis crds write|check`: the generated CRD file, made or compared with what lies in the folder.

`check` is for CI: it prints the difference and fails when the models have changed and the file has not.
"""

import difflib
from pathlib import Path

from kvis_operator.api import crd


def write(folder: Path) -> int:
    """Exit status: 0. The file is left alone when nothing in it would change."""
    path = folder / crd.FILE_NAME
    if path.is_file() and path.read_text() == crd.text():
        print(f"{path} is up to date")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(crd.text())
    print(f"{path} written")
    return 0


def check(folder: Path) -> int:
    """Exit status: 0 when the file is what `write` would make, else 1 with the difference printed."""
    path = folder / crd.FILE_NAME
    current = path.read_text() if path.is_file() else ""
    if current == crd.text():
        print(f"{path} is up to date")
        return 0
    difference = difflib.unified_diff(
        current.splitlines(), crd.text().splitlines(), fromfile=str(path), tofile="generated", lineterm=""
    )
    print("\n".join(difference))
    print(f"{path} differs from the models, run: kvis crds write {folder}")
    return 1

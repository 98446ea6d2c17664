"""Mutation score of the deciding code: `scaling/` and `tuning/admission.py`, by mutmut.

    python tests/bench/mutation.py [--keep FOLDER] [--only GLOB]

mutmut wants the packages beside the tests, so the source roots and the tests of deciding are copied to a scratch folder
first. Prints the score and the survivors, and exits with 1 below 80 %. Mutants of `numbers` that only rename a key are
counted like any other.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOWEST_SCORE = 0.80
CONFIG = """\
[mutmut]
source_paths=
    kvis_operator
only_mutate=
    kvis_operator/scaling/*.py
    kvis_operator/tuning/admission.py
pytest_add_cli_args_test_selection=
    unit
also_copy=
    kvis_kv
    unit
    observations.py
    pytest.ini
    conftest.py
    setup.cfg
"""
PYTEST = """\
[pytest]
addopts = --import-mode=importlib -p no:cacheprovider
pythonpath = .
"""
CONFTEST = """\
import pytest
from kvis_operator.scaling import step_time


@pytest.fixture(autouse=True)
def no_answers_from_before_the_mutation() -> None:
    step_time._solved.cache_clear()
"""
CAUGHT = ("killed", "timeout", "suspicious", "segfault")


def lay_out(folder: Path) -> None:
    """The packages and the tests of deciding side by side, as mutmut expects them."""
    shutil.copytree(ROOT / "operator" / "kvis_operator", folder / "kvis_operator", dirs_exist_ok=True)
    shutil.copytree(ROOT / "pod_runtime" / "kvis_kv", folder / "kvis_kv", dirs_exist_ok=True)
    for part in ("scaling", "tuning", "cases"):
        shutil.copytree(
            ROOT / "tests" / "unit" / "operator" / part, folder / "unit" / part, dirs_exist_ok=True
        )
    shutil.copy(ROOT / "tests" / "observations.py", folder)
    (folder / "setup.cfg").write_text(CONFIG, encoding="utf-8")
    (folder / "pytest.ini").write_text(PYTEST, encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")


def verdicts(folder: Path) -> list[tuple[str, str]]:
    """(mutant, verdict) of every mutant that was tried."""
    listing = subprocess.run(
        [sys.executable, "-m", "mutmut", "results", "--all", "true"],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    pairs = [line.strip().rpartition(": ") for line in listing.splitlines() if ": " in line]
    return [(name, verdict) for name, _, verdict in pairs if verdict != "not checked"]


def report(found: Sequence[tuple[str, str]]) -> int:
    counts = Counter(verdict for _, verdict in found)
    caught = sum(counts[verdict] for verdict in CAUGHT)
    for name, verdict in found:
        if verdict not in CAUGHT:
            print(f"{verdict:12s} {name}")
    if not found:
        print("No mutant was tried.")
        return 1
    score = caught / len(found)
    print(f"Mutation score {score:.1%} ({caught} of {len(found)}): {dict(counts)}")
    return 0 if score >= LOWEST_SCORE else 1


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="work in this folder and keep it")
    parser.add_argument("--only", nargs="*", default=[], help="mutant names, with wildcards")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        lay_out(folder)
        subprocess.run([sys.executable, "-m", "mutmut", "run", *options.only], cwd=folder, check=False)
        return report(verdicts(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""One run, flattened to a row, and the folder that keeps rows between invocations.

A row is valid for the sources it was made with: its key holds a fingerprint of the simulator's code and,
for our own scaler, of the deciding code. Changing a rival's port, the report or a grid leaves all other
rows alone.
"""

import ast
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvis_sim.bench.methods import Method
from kvis_sim.result import Result
from kvis_sim.scenarios.catalogue import recipe_named

_OPERATOR = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Job:
    """One simulation: a scenario by name, a method, a seed; `variant` names what else differs (fault,
    router...).
    """

    scenario: str
    method: Method
    seed: int

    @property
    def key(self) -> str:
        parts = [repr(recipe_named(self.scenario)), self.method.label, str(self.seed)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Row:
    """Rates and times in seconds, cost in replica-hours, tokens as counts. All simulated."""

    scenario: str
    family: str
    method: str
    seed: int
    offered: int
    attainment: float
    replica_hours: float
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    ttft_p99: float | None = None
    tpot_p50: float | None = None
    tpot_p95: float | None = None
    tpot_p99: float | None = None
    itl_p99: float | None = None
    actions: int = 0
    reversals: int = 0
    violation_minutes: int = 0
    hit_rate: float | None = None
    preemptions: int = 0
    preempted_tokens: int = 0
    unfinished: int = 0
    lost: int = 0
    max_alive: int = 0
    wall_seconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


def row_of(job: Job, result: Result, *, wall_seconds: float, extra: dict[str, Any] | None = None) -> Row:
    return Row(
        scenario=job.scenario,
        family=job.method.family,
        method=job.method.label,
        seed=job.seed,
        offered=result.offered,
        attainment=result.attainment if result.attainment is not None else 1.0,
        replica_hours=result.replica_hours,
        ttft_p50=result.ttft.p50,
        ttft_p95=result.ttft.p95,
        ttft_p99=result.ttft.p99,
        tpot_p50=result.tpot.p50,
        tpot_p95=result.tpot.p95,
        tpot_p99=result.tpot.p99,
        itl_p99=result.inter_token.p99,
        actions=result.actions,
        reversals=result.reversals,
        violation_minutes=result.violation_minutes,
        hit_rate=result.hit_rate,
        preemptions=result.preemptions,
        preempted_tokens=result.preempted_tokens,
        unfinished=result.unfinished,
        lost=result.lost,
        max_alive=result.max_alive,
        wall_seconds=wall_seconds,
        extra=extra or {},
    )


@dataclass(frozen=True, slots=True)
class Fingerprints:
    simulator: str
    deciding: str
    baselines: str

    def of(self, method: Method) -> tuple[str, ...]:
        return (self.simulator, self.deciding if method.is_ours else self.baselines)


def fingerprints() -> Fingerprints:
    sim = _OPERATOR / "kvis_sim"
    scenarios = sim / "scenarios"
    simulating = _with_imports([sim / "cluster.py", scenarios / "recipe.py", scenarios / "traffic.py"])
    deciding = [sim / "shipped.py"]
    for folder in ("signals", "scaling", "tuning"):
        deciding += (_OPERATOR / "kvis_operator" / folder).glob("*.py")
    return Fingerprints(_digest(simulating), _digest(deciding), _digest((sim / "baselines").glob("*.py")))


def _with_imports(paths: Iterable[Path]) -> set[Path]:
    """The sources and all of the simulator that they import, directly or not."""
    found: set[Path] = set()
    open_paths = list(paths)
    while open_paths:
        path = open_paths.pop()
        if path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kvis_sim"):
                open_paths += _sources(node)
    return found


def _sources(node: ast.ImportFrom) -> list[Path]:
    """Files that the import may mean: the module itself, or modules named in it."""
    base = _OPERATOR.joinpath(*(node.module or "").split("."))
    candidates = [base.with_suffix(".py"), base / "__init__.py", *(base / f"{n.name}.py" for n in node.names)]
    return [path for path in candidates if path.exists()]


def _digest(paths: Iterable[Path]) -> str:
    """Of what the sources do: neither formatting nor comments nor docstrings make a row invalid."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                node.body = node.body[1:]
        digest.update(path.name.encode() + b"\0" + ast.dump(tree).encode())
    return digest.hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class RowStore:
    """`any_version` accepts rows that other versions of the sources made."""

    folder: Path
    prints: Fingerprints
    any_version: bool = False

    def load(self, job: Job) -> Row | None:
        path = self._path(job)
        if not path.exists():
            return None
        kept = json.loads(path.read_text())
        valid = self.any_version or kept["fingerprints"] == list(self.prints.of(job.method))
        return Row(**kept["row"]) if valid else None

    def save(self, job: Job, row: Row) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(job)
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps({"fingerprints": self.prints.of(job.method), "row": asdict(row)}))
        partial.replace(path)

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.key}.json"

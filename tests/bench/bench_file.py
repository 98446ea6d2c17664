"""Reads, merges and writes the result files of the benches: `build/bench/NAME.json`.

    {"machine": "...", "date": "...", "command": "...", "rows": [raw measurements], "figures": {name: number}}

Several tools measure parts of one file. Each replaces its own figures and the rows that carry its `source`,
and leaves the others' alone. A figure that could not be measured is null, with the reason in its row.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "build" / "bench"


def machine() -> str:
    """What the figures were measured on, in one line."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line.split(":", 1)[1].strip() for line in cpuinfo.splitlines() if "model name" in line), "")
    flags = next((line.split(":", 1)[1].split() for line in cpuinfo.splitlines() if "flags" in line), [])
    interesting = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    units = " ".join(flag for flag in interesting if flag in flags)
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpus = len(os.sched_getaffinity(0))
    return f"{model} ({units}), {cpus} CPUs, {memory_gib:.0f} GiB, Python {platform.python_version()}"


def read(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """The file's content, or an empty result when it does not exist yet."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return {"machine": "", "date": "", "command": "", "rows": [], "figures": {}}
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def merge(
    name: str,
    *,
    source: str,
    command: str,
    rows: Sequence[Mapping[str, Any]],
    figures: Mapping[str, float | None],
    folder: Path = FOLDER,
) -> dict[str, Any]:
    """Put one tool's rows and figures into the file, keep everyone else's, and return the whole."""
    result = read(name, folder)
    kept = [row for row in result["rows"] if row.get("source") != source]
    result |= {
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "rows": [*kept, *({"source": source, **row} for row in rows)],
        "figures": {**result["figures"], **figures},
    }
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".{name}.{os.getpid()}"
    scratch.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    scratch.replace(folder / f"{name}.json")
    return result

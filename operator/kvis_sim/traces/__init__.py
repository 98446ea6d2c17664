"""The traces that come with the package (sources and licences: README.md here), and a user's own files.

The only module of the simulator that reads files. Bundled traces are parsed once per process.
"""

import gzip
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from kvis_sim import trace_formats
from kvis_sim.trace_formats import ClientWindow, RatePoint
from kvis_sim.workload import Trace, TraceError

__all__ = [
    "NAMES",
    "ClientWindow",
    "RatePoint",
    "load_clients",
    "load_lines",
    "load_rates",
    "load_trace",
    "read_trace",
]

AGENTIC_SESSIONS_PER_SECOND = 0.08  # the 239 sessions begin within 50 minutes

_READERS: dict[str, tuple[str, Callable[[Iterable[str], str], Trace]]] = {
    "azure-conv": ("azure_conv.csv.gz", trace_formats.azure),
    "azure-code": ("azure_code.csv.gz", trace_formats.azure),
    "mooncake-conversation": ("mooncake_conversation.jsonl.gz", trace_formats.mooncake),
    "mooncake-synthetic": ("mooncake_synthetic.jsonl.gz", trace_formats.mooncake),
    "agentic": (
        "agentic_sessions.jsonl.gz",
        partial(trace_formats.agentic, sessions_per_second=AGENTIC_SESSIONS_PER_SECOND),
    ),
    "aibrix": ("aibrix_8min_up_and_down.csv.gz", trace_formats.aibrix),
    "arxiv": ("vidur_arxiv_lengths.csv.gz", trace_formats.lengths),
}
NAMES = tuple(sorted(_READERS))
"""What `load_trace` knows. `arxiv` has lengths only."""

CLIENT_POOLS = {
    "m-small": "servegen_m-small_clients.csv.gz",
    "deepseek-r1": "servegen_deepseek-r1_clients.csv.gz",
}


def load_lines(file: str) -> Iterator[str]:
    """Lines of a bundled, compressed file."""
    with files(__name__).joinpath(file).open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8") as lines:
        yield from lines


@cache
def load_trace(name: str) -> Trace:
    """A bundled trace by name; do not change it, it is shared."""
    if name not in _READERS:
        raise TraceError(f"no trace named {name!r}; there are {', '.join(NAMES)}")
    file, reader = _READERS[name]
    return reader(load_lines(file), name)


@cache
def load_rates(pool: str) -> tuple[RatePoint, ...]:
    """ServeGen's 10-minute request rates of a pool such as `language/m-large`; zeros are gaps of the
    recording.
    """
    file = "servegen_aggregate_rate_10min.csv.gz"
    return tuple(trace_formats.rates(load_lines(file), file, pool))


@cache
def load_clients(pool: str) -> tuple[ClientWindow, ...]:
    """ServeGen's clients of `m-small` or `deepseek-r1`."""
    if pool not in CLIENT_POOLS:
        raise TraceError(f"no clients of pool {pool!r}; there are {', '.join(sorted(CLIENT_POOLS))}")
    return tuple(trace_formats.clients(load_lines(CLIENT_POOLS[pool]), pool))


def read_trace(path: Path) -> Trace:
    """A user's own trace, plain or gzip; the format is recognised by its first line."""
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rt", encoding="utf-8") if zipped else path.open(encoding="utf-8") as lines:
        first = lines.readline()
        reader = trace_formats.by_content(first, path.name)
        return reader(_with_first(first, lines), path.name)


def _with_first(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest

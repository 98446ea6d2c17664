"""Reads the published trace formats: Mooncake, Azure, AIBrix, agentic sessions, ServeGen rates, plain
lengths.

Pure: takes lines, gives columns. Whatever cannot be replayed (unknown columns, an empty file, times that
are negative or go backwards, negative lengths) is a TraceError that names file, line and column.
"""

import csv
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kvis_sim.workload import Request, Trace, TraceError

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
AIBRIX_COLUMNS = ("timestamp_ms", "prompt_tokens", "output_tokens")
LENGTH_COLUMNS = ("num_prefill_tokens", "num_decode_tokens")
RATE_COLUMNS = ("pool", "t_s", "rate_rps")
CLIENT_COLUMNS = ("client", "t_s", "rate_rps", "cv", "dist", "p1", "p2")
MOONCAKE_KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
MOONCAKE_BLOCK = 512  # tokens


@dataclass(frozen=True, slots=True)
class RatePoint:
    """Requests per second from `at` seconds on."""

    at: float
    rate: float


@dataclass(frozen=True, slots=True)
class ClientWindow:
    """One client's traffic in one window: renewal arrivals whose gaps follow `distribution`(shape, scale)."""

    client: str
    at: float
    rate: float
    distribution: str  # Gamma | Weibull
    shape: float
    scale: float


class _Place:
    """Where in which file: every error says it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.line = 0

    def error(self, column: str, problem: str) -> TraceError:
        return TraceError(f"{self.name}, line {self.line}, column {column}: {problem}")

    def number(self, row: Mapping[str, Any], column: str, *, least: float) -> float:
        try:
            value = float(row[column])
        except KeyError:
            raise self.error(column, "missing") from None
        except (TypeError, ValueError):
            raise self.error(column, f"{row[column]!r} is not a number") from None
        if not least <= value < float("inf"):
            raise self.error(column, f"{value:g} is below {least:g}, or not finite")
        return value

    def tokens(self, row: Mapping[str, Any], column: str) -> int:
        """A length; recorded zeros (failed requests) count as 1 token."""
        return max(1, int(self.number(row, column, least=0.0)))


class _Builder:
    """Appends requests to a trace, first time becoming 0; times must not go backwards."""

    def __init__(self, trace: Trace, place: _Place) -> None:
        self.trace = trace
        self._place = place
        self._first: float | None = None

    def add(self, at: float, column: str, request: tuple[int, int, tuple[int, ...]]) -> None:
        if self._first is None:
            self._first = at
        relative = at - self._first
        last = self.trace.times[-1] if len(self.trace) else 0.0
        if relative < last:
            raise self._place.error(
                column, f"the time goes back by {last - relative:g} s; sort the file by time"
            )
        self.trace.append(Request(relative, *request))

    def done(self) -> Trace:
        if not len(self.trace):
            raise TraceError(f"{self._place.name}: no requests in the file")
        return self.trace


def _csv_rows(lines: Iterable[str], place: _Place, needed: tuple[str, ...]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(lines)
    columns = tuple(reader.fieldnames or ())
    if not columns:
        raise TraceError(f"{place.name}: the file is empty; expected the columns {', '.join(needed)}")
    missing = [column for column in needed if column not in columns]
    if missing:
        raise TraceError(
            f"{place.name}, line 1: columns {', '.join(missing)} are missing; found {', '.join(columns)}"
        )
    for row in reader:
        place.line = reader.line_num
        yield row


def _json_rows(lines: Iterable[str], place: _Place) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        place.line = number
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceError(f"{place.name}, line {number}: not JSON ({error.msg})") from error
        if not isinstance(row, dict):
            raise TraceError(f"{place.name}, line {number}: expected a JSON object")
        yield row


def mooncake(lines: Iterable[str], name: str) -> Trace:
    """JSON lines with `timestamp` in ms and one id per started block of 512 tokens; only full blocks are
    kept.
    """
    place = _Place(name)
    builder = _Builder(Trace(name, block_size=MOONCAKE_BLOCK), place)
    shared: dict[int, int] = {}  # one int object per id, however often it occurs
    for row in _json_rows(lines, place):
        unknown = sorted(set(MOONCAKE_KEYS) - set(row))
        if unknown:
            raise place.error(unknown[0], f"missing; found {', '.join(sorted(row))}")
        at = place.number(row, "timestamp", least=0.0) / 1000.0
        prompt = place.tokens(row, "input_length")
        ids = row["hash_ids"][: prompt // MOONCAKE_BLOCK]
        blocks = tuple(shared.setdefault(block, block) for block in ids)
        builder.add(at, "timestamp", (prompt, place.tokens(row, "output_length"), blocks))
    return builder.done()


def azure(lines: Iterable[str], name: str) -> Trace:
    """CSV with wall-clock time stamps and two lengths; no prefix ids."""
    place = _Place(name)
    builder = _Builder(Trace(name), place)
    for row in _csv_rows(lines, place, AZURE_COLUMNS):
        try:
            at = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
        except ValueError:
            raise place.error("TIMESTAMP", f"{row['TIMESTAMP']!r} is not a date and time") from None
        lengths = [place.tokens(row, column) for column in AZURE_COLUMNS[1:]]
        builder.add(at, "TIMESTAMP", (lengths[0], lengths[1], ()))
    return builder.done()


def aibrix(lines: Iterable[str], name: str) -> Trace:
    """CSV with times in ms and two lengths: also the format for one's own traces."""
    place = _Place(name)
    builder = _Builder(Trace(name), place)
    for row in _csv_rows(lines, place, AIBRIX_COLUMNS):
        at = place.number(row, "timestamp_ms", least=0.0) / 1000.0
        lengths = [place.tokens(row, column) for column in AIBRIX_COLUMNS[1:]]
        builder.add(at, "timestamp_ms", (lengths[0], lengths[1], ()))
    return builder.done()


def lengths(lines: Iterable[str], name: str) -> Trace:
    """CSV of prompt and answer lengths without times: to draw from, not to replay."""
    place = _Place(name)
    builder = _Builder(Trace(name, timed=False), place)
    for row in _csv_rows(lines, place, LENGTH_COLUMNS):
        prompt, output = (place.tokens(row, column) for column in LENGTH_COLUMNS)
        builder.add(0.0, LENGTH_COLUMNS[0], (prompt, output, ()))
    return builder.done()


def agentic(lines: Iterable[str], name: str, *, sessions_per_second: float, seed: int = 0) -> Trace:
    """One coding session a line; sessions begin as a Poisson process, requests keep their times within them.

    Block ids are unique within a session only; they are renumbered. Requests of sub-agents are merged in.
    """
    place = _Place(name)
    rng = random.Random(f"{seed}/sessions")
    found: list[Request] = []
    begin, base, block_size = 0.0, 0, 0
    for session in _json_rows(lines, place):
        block_size = place.tokens(session, "block_size")
        begin += rng.expovariate(sessions_per_second)
        highest = 0
        for at, row in _session_requests(session.get("requests", ()), 0.0):
            prompt = place.tokens(row, "in")
            ids = row.get("hash_ids", ())[: prompt // block_size]
            highest = max(highest, max(ids, default=0))
            blocks = tuple(base + block for block in ids)
            found.append(Request(begin + at, prompt, place.tokens(row, "out"), blocks))
        base += highest + 1
    trace = Trace(name, block_size=block_size or None)
    builder = _Builder(trace, place)
    for request in sorted(found):
        builder.add(request.at, "t", (request.prompt, request.output, request.blocks))
    return builder.done()


def _session_requests(
    rows: Iterable[Mapping[str, Any]], begin: float
) -> Iterator[tuple[float, Mapping[str, Any]]]:
    for row in rows:
        at = begin + float(row.get("t", 0.0))
        if row.get("type") == "subagent":
            yield from _session_requests(row.get("requests", ()), at)
        else:
            yield at, row


def rates(lines: Iterable[str], name: str, pool: str) -> list[RatePoint]:
    """ServeGen's aggregate: request rates of one pool, window by window."""
    place = _Place(name)
    found: list[RatePoint] = []
    pools: set[str] = set()
    for row in _csv_rows(lines, place, RATE_COLUMNS):
        pools.add(row["pool"])
        if row["pool"] == pool:
            at = place.number(row, "t_s", least=0.0)
            if found and at <= found[-1].at:
                raise place.error("t_s", "the time does not advance; sort the file by pool and time")
            found.append(RatePoint(at, place.number(row, "rate_rps", least=0.0)))
    if not found:
        raise TraceError(f"{name}: no pool {pool!r}; there are {', '.join(sorted(pools)) or 'none'}")
    return found


def clients(lines: Iterable[str], name: str) -> list[ClientWindow]:
    """ServeGen's clients: rate and inter-arrival law of each client in each window it was active."""
    place = _Place(name)
    found = []
    for row in _csv_rows(lines, place, CLIENT_COLUMNS):
        if row["dist"] not in ("Gamma", "Weibull"):
            raise place.error("dist", f"{row['dist']!r} is unknown; Gamma or Weibull")
        at, rate, shape, scale = (
            place.number(row, column, least=0.0) for column in ("t_s", "rate_rps", "p1", "p2")
        )
        found.append(ClientWindow(row["client"], at, rate, row["dist"], shape, scale))
    if not found:
        raise TraceError(f"{name}: no clients in the file")
    return found


def by_content(first_line: str, name: str) -> Callable[[Iterable[str], str], Trace]:
    """The reader for a file that begins so; TraceError when nothing fits."""
    text = first_line.strip()
    if text.startswith("{"):
        if '"requests"' in text:
            return lambda lines, label: agentic(lines, label, sessions_per_second=0.1)
        return mooncake
    columns = set(text.split(","))
    for reader, needed in ((azure, AZURE_COLUMNS), (aibrix, AIBRIX_COLUMNS), (lengths, LENGTH_COLUMNS)):
        if columns >= set(needed):
            return reader
    if not text:
        raise TraceError(f"{name}: the file is empty")
    raise TraceError(
        f"{name}, line 1: columns {text[:80]} are unknown; expected {', '.join(AIBRIX_COLUMNS)} (CSV), "
        f"{', '.join(AZURE_COLUMNS)} (CSV), or JSON lines with {', '.join(MOONCAKE_KEYS)}"
    )

"""A service's scrapes as CSV: what `kvis record` writes and `kvis simulate` replays.

One line for each pod and scrape, times in Unix seconds. A scrape that failed is a line without values:
missing stays missing. Histograms are JSON in one cell.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TextIO

from kvis_operator.signals.observation import PodPhase, PodState
from kvis_operator.signals.sample import Histogram, PodSample

HISTOGRAMS = ("ttft", "tpot", "inter_token", "prefill")
WHOLE = ("block_size", "max_num_seqs", "max_num_active_seqs")
NUMBERS = tuple(
    field.name
    for field in fields(PodSample)
    if field.name not in {"at", "model_names", "faults", *HISTOGRAMS, *WHOLE}
)
HEAD = ("at", "pod", "uid", "phase", "created_at", "ready_at")
COLUMNS = (*HEAD, *NUMBERS, *WHOLE, *HISTOGRAMS)


class RecordingError(ValueError):
    """A recording that cannot be replayed; the text names file, line and column."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """All pods of a service at one moment; `samples` by uid, of those that answered."""

    at: float
    pods: tuple[PodState, ...]
    samples: Mapping[str, PodSample]


class RecordingWriter:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._writer = csv.DictWriter(file, COLUMNS, restval="")
        self._writer.writeheader()

    def write(self, scrape: Scrape) -> None:
        for pod in scrape.pods:
            row: dict[str, object] = {
                "at": scrape.at,
                "pod": pod.name,
                "uid": pod.uid,
                "phase": pod.phase,
                "created_at": pod.created_at,
                "ready_at": "" if pod.ready_at is None else pod.ready_at,
            }
            sample = scrape.samples.get(pod.uid)
            self._writer.writerow(row if sample is None else row | _cells(sample))
        self._file.flush()


def _cells(sample: PodSample) -> dict[str, object]:
    values = {name: getattr(sample, name) for name in (*NUMBERS, *WHOLE)}
    cells: dict[str, object] = {name: value for name, value in values.items() if value is not None}
    for name in HISTOGRAMS:
        histogram: Histogram | None = getattr(sample, name)
        if histogram is not None:
            cells[name] = json.dumps([histogram.bounds, histogram.counts, histogram.total])
    return cells


def is_recording(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().strip().split(",")[: len(HEAD)] == list(HEAD)


def read_recording(path: Path) -> list[Scrape]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        unknown = sorted(set(reader.fieldnames or ()) - set(COLUMNS))
        if unknown:
            raise RecordingError(
                f"{path}, line 1: unknown columns {', '.join(unknown)}; `kvis record` writes others"
            )
        scrapes = list(_grouped(_Lines(path, reader)))
    if not scrapes:
        raise RecordingError(f"{path}: no scrapes in the file")
    return scrapes


@dataclass(slots=True)
class _Lines:
    path: Path
    reader: "csv.DictReader[str]"

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(self.reader)

    def number(self, row: Mapping[str, str], column: str) -> float | None:
        text = row.get(column) or ""
        try:
            return float(text) if text else None
        except ValueError:
            raise self.error(column, f"{text!r} is not a number") from None

    def time(self, row: Mapping[str, str], column: str) -> float:
        value = self.number(row, column)
        if value is None or not math.isfinite(value) or value < 0.0:
            raise self.error(column, f"{row.get(column)!r} is no time in Unix seconds")
        return value

    def error(self, column: str, problem: str) -> RecordingError:
        return RecordingError(f"{self.path}, line {self.reader.line_num}, column {column}: {problem}")


def _grouped(lines: _Lines) -> Iterator[Scrape]:
    at: float | None = None
    pods: list[PodState] = []
    samples: dict[str, PodSample] = {}
    for row in lines:
        now = lines.time(row, "at")
        if at is not None and now < at:
            raise lines.error("at", f"the time goes back by {at - now:g} s; sort the file by time")
        if at is not None and now > at:
            yield Scrape(at, tuple(pods), samples)
            pods, samples = [], {}
        at = now
        pods.append(_pod(lines, row))
        if (sample := _sample(lines, row, now)) is not None:
            samples[row["uid"]] = sample
    if at is not None:
        yield Scrape(at, tuple(pods), samples)


def _pod(lines: _Lines, row: Mapping[str, str]) -> PodState:
    try:
        phase = PodPhase(row["phase"])
    except ValueError:
        raise lines.error("phase", f"{row['phase']!r} is not one of {', '.join(PodPhase)}") from None
    ready_at = lines.number(row, "ready_at")
    return PodState(row["pod"], row["uid"], phase, lines.time(row, "created_at"), ready_at)


def _sample(lines: _Lines, row: Mapping[str, str], at: float) -> PodSample | None:
    numbers = {name: lines.number(row, name) for name in NUMBERS}
    whole = {name: lines.number(row, name) for name in WHOLE}
    if all(value is None for value in (*numbers.values(), *whole.values())):
        return None
    counts = {name: None if value is None else int(value) for name, value in whole.items()}
    histograms = {name: _histogram(lines, row, name) for name in HISTOGRAMS}
    return PodSample(at=at, **numbers, **counts, **histograms)  # type: ignore[arg-type]  # one type for each name


def _histogram(lines: _Lines, row: Mapping[str, str], column: str) -> Histogram | None:
    text = row.get(column)
    if not text:
        return None
    try:
        bounds, counts, total = json.loads(text)
        return Histogram(tuple(map(float, bounds)), tuple(map(float, counts)), float(total))
    except (ValueError, TypeError) as error:
        raise lines.error(column, "not a histogram as `kvis record` writes it") from error


def write_recording(path: Path, scrapes: Iterable[Scrape]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = RecordingWriter(file)
        for scrape in scrapes:
            writer.write(scrape)

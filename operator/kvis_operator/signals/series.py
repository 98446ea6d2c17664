"""Windows over the pods' counters: bounded memory, resets dropped, cheap differences.

`Fleet` keeps, per pod uid, points of *corrected* counters: they only ever grow, because an interval in which a
counter went back, appeared or vanished adds nothing, neither tokens nor time. Any window is then one subtraction.
Not here: what the differences mean (golden.py).
"""

from bisect import bisect_right
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Final, NamedTuple

from kvis_operator.signals.sample import Histogram, PodSample

KEEP_SECONDS: Final = 660.0  # the longest window is 10 min
KEEP_HISTOGRAM_SECONDS: Final = 180.0  # latency is looked at over 2 min
CLOCK_STEP_SECONDS: Final = 60.0  # an older sample than this is a clock set back, not a late one


class Counters(NamedTuple):
    """Differences over a window, or totals since the first sample. None: the pod does not report it."""

    covered_seconds: float | None = 0.0  # time in which the counters could be trusted
    arrivals: float | None = None  # finished + change of (running + waiting)
    started: float | None = None  # first tokens sent
    finished: float | None = None
    prompt: float | None = None
    cached: float | None = None
    computed: float | None = None
    generated: float | None = None
    queries: float | None = None
    hits: float | None = None
    clean_queries: float | None = None  # without intervals that had a preemption
    clean_hits: float | None = None
    preemptions: float | None = None
    steps: float | None = None
    busy_seconds: float | None = None
    prefill_seconds: float | None = None
    prefills: float | None = None
    gap_seconds: float | None = None  # inter-token gaps
    gaps: float | None = None


_READ: Final[Callable[[PodSample], tuple[float | None, ...]]] = attrgetter(
    "finished_requests", "prompt_tokens", "prompt_tokens_cached", "prompt_tokens_computed", "generation_tokens",
    "prefix_queries", "prefix_hits", "preemptions", "engine_steps", "engine_busy_seconds",
)  # fmt: skip


WATCHED: Final = (
    "finished_requests", "prompt_tokens", "generation_tokens", "prefix_queries", "prefix_hits", "preemptions", "ttft",
)  # fmt: skip
_WATCH: Final = attrgetter(*WATCHED)


class Point:
    """One sample and the corrected counters up to it. `ttft` and `tpot` are dropped when old."""

    __slots__ = ("at", "dropped", "sample", "totals", "tpot", "ttft")

    def __init__(
        self, sample: PodSample, totals: Counters, ttft: Histogram | None, tpot: Histogram | None
    ) -> None:
        self.at = sample.at
        self.sample = sample
        self.totals = totals
        self.ttft = ttft
        self.tpot = tpot
        self.dropped = False  # the interval that ends here was not used


class Window(NamedTuple):
    first: Point
    last: Point
    change: Counters


class Track:
    """One pod's points, oldest first."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._points: list[Point] = []
        self._moved_at: float | None = None
        self._seen: set[str] = set()
        self._absent: dict[str, float] = {}

    @property
    def last(self) -> Point | None:
        return self._points[-1] if self._points else None

    @property
    def first_at(self) -> float | None:
        """Time of the oldest sample that is kept."""
        return self._times[0] if self._times else None

    @property
    def moved_at(self) -> float | None:
        """When a counter last changed, or the pod last was idle."""
        return self._moved_at

    def complete_since(self, *counters: str) -> float | None:
        """Time of the newest sample that lacked one of `counters`, which other samples had; None if none did.

        A ratio over a window that reaches further back would compare different times.
        """
        return max((self._absent[name] for name in counters if name in self._absent), default=None)

    def add(self, sample: PodSample) -> None:
        last = self.last
        if last is not None and sample.at <= last.at:
            if last.at - sample.at <= CLOCK_STEP_SECONDS:
                return
            self._times.clear()
            self._points.clear()
            last = None
        point = (
            Point(sample, Counters(), sample.ttft, sample.tpot or sample.inter_token)
            if last is None
            else _next(last, sample)
        )
        if last is None or _READ(sample) != _READ(last.sample) or not (sample.running or sample.waiting):
            self._moved_at = sample.at
        self._note_absences(sample)
        self._times.append(sample.at)
        self._points.append(point)
        self._forget(sample.at)

    def window(
        self, seconds: float, *, since: float | None = None, until: float | None = None
    ) -> Window | None:
        """Change over the last `seconds` up to the newest sample (or that at `until`), not from before `since`.

        Starts at the newest point that is at least `seconds` old, so a missed scrape widens it rather than losing data.
        """
        end = len(self._points) if until is None else bisect_right(self._times, until)
        if end < 2:
            return None
        last = self._points[end - 1]
        first = max(0, bisect_right(self._times, last.at - seconds + 0.5, 0, end) - 1)
        if since is not None and self._times[first] < since:
            first = bisect_right(self._times, since, 0, end)
        if first >= end - 1:
            return None
        return Window(self._points[first], last, _minus(last.totals, self._points[first].totals))

    def reset_within(self, seconds: float) -> bool:
        edge = self._times[-1] - seconds if self._times else 0.0
        return any(point.dropped for point in self._points[bisect_right(self._times, edge) :])

    def _note_absences(self, sample: PodSample) -> None:
        for name, value in zip(WATCHED, _WATCH(sample), strict=True):
            if value is not None:
                self._seen.add(name)
            elif name in self._seen:
                self._absent[name] = sample.at

    def _forget(self, now: float) -> None:
        if len(self._times) > 2 and self._times[1] < now - KEEP_SECONDS:
            keep = bisect_right(self._times, now - KEEP_SECONDS) - 1
            del self._times[:keep]
            del self._points[:keep]
        old = bisect_right(self._times, now - KEEP_HISTOGRAM_SECONDS)
        for point in reversed(self._points[:old]):
            if point.ttft is None and point.tpot is None:
                break
            point.ttft = point.tpot = None
            point.sample = _without_histograms(point.sample)


class Fleet:
    """The tracks of one service's pods, by uid."""

    def __init__(self) -> None:
        self._tracks: dict[str, Track] = {}

    def record(self, uid: str, sample: PodSample) -> None:
        """Adds a sample; one that is not newer than the last is ignored."""
        self._tracks.setdefault(uid, Track()).add(sample)

    def forget(self, uids_alive: Collection[str]) -> None:
        """Drops every pod that is not in `uids_alive`."""
        for uid in [uid for uid in self._tracks if uid not in uids_alive]:
            del self._tracks[uid]

    def track(self, uid: str) -> Track | None:
        return self._tracks.get(uid)

    def __len__(self) -> int:
        return len(self._tracks)


def _minus(last: Counters, first: Counters) -> Counters:
    return Counters(*[None if b is None else b - (a or 0.0) for a, b in zip(first, last, strict=True)])


def _next(last: Point, sample: PodSample) -> Point:
    """The point after `last`, with the interval between them added, or dropped if a counter cannot be trusted in it."""
    change = _change(last.sample, sample)
    if change is None:
        point = Point(
            sample, _blank_absent(last.totals, sample), sample.ttft, sample.tpot or sample.inter_token
        )
        point.dropped = True
        return point
    totals = Counters(
        *[None if new is None else (old or 0.0) + new for old, new in zip(last.totals, change, strict=True)]
    )
    return Point(sample, totals, sample.ttft, sample.tpot or sample.inter_token)


def _change(before: PodSample, after: PodSample) -> Counters | None:
    """Counters between two samples; None when one went back, appeared or vanished."""
    deltas: list[float | None] = []
    for old, new in zip(
        (*_READ(before), *_observed(before)), (*_READ(after), *_observed(after)), strict=True
    ):
        if old is None and new is None:
            deltas.append(None)
        elif old is None or new is None or new < old:
            return None
        else:
            deltas.append(new - old)
    finished, prompt, cached, computed, generated, queries, hits, preemptions, steps, busy = deltas[:10]
    started, prefill_seconds, prefills, gap_seconds, gaps = deltas[10:]
    clean = not preemptions
    return Counters(
        after.at - before.at, _arrivals(before, after, finished), started, finished, prompt, cached, computed,
        generated,
        queries, hits, queries if clean or queries is None else 0.0, hits if clean or hits is None else 0.0,
        preemptions, steps, busy, prefill_seconds, prefills, gap_seconds, gaps,
    )  # fmt: skip


def _observed(sample: PodSample) -> tuple[float | None, ...]:
    """Counts and sums of the histograms: first tokens, prefills, gaps."""
    ttft, prefill, gap = sample.ttft, sample.prefill, sample.inter_token
    return (
        ttft.counts[-1] if ttft else None,
        prefill.total if prefill else None,
        prefill.counts[-1] if prefill else None,
        gap.total if gap else None,
        gap.counts[-1] if gap else None,
    )


def _arrivals(before: PodSample, after: PodSample, finished: float | None) -> float | None:
    if finished is None:
        return None
    inside = [
        (new or 0.0) - (old or 0.0)
        for old, new in ((before.running, after.running), (before.waiting, after.waiting))
        if old is not None and new is not None
    ]
    return finished + sum(inside)


def _blank_absent(totals: Counters, sample: PodSample) -> Counters:
    """Totals with the counters that the sample lacks marked unknown."""
    present = _change(sample, sample)
    if present is None:
        return totals
    return Counters(*[None if now is None else old for old, now in zip(totals, present, strict=True)])


def _without_histograms(sample: PodSample) -> PodSample:
    return PodSample(
        at=sample.at, running=sample.running, waiting=sample.waiting, kv_usage=sample.kv_usage,
        kv_capacity_tokens=sample.kv_capacity_tokens, faults=sample.faults,
    )  # fmt: skip

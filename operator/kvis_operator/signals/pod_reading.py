"""One pod: its state and its track -> its signals, and the windows of it that count for the service.

A pod is fresh with a sample not older than two intervals that is neither from the future nor frozen; warm after twice
its load time and fifty requests; its speed counts after as long and a thousand generated tokens. A silent pod shows no
readings, but keeps its last rates for some minutes.
"""

from dataclasses import dataclass
from typing import Final

from kvis_operator.signals import faults
from kvis_operator.signals.histogram import at_least, growth
from kvis_operator.signals.observation import PodPhase, PodSignals, PodState, StepWindow
from kvis_operator.signals.ratios import (
    kv_tokens,
    preemptions_per_request,
    prefill_decode_ratio,
    quotient,
    running_change,
)
from kvis_operator.signals.sample import Histogram, PodSample
from kvis_operator.signals.series import Counters, Track, Window

RATE_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 180.0
SHAPE_SECONDS: Final = 600.0  # request shape and hit rate
RECENT_SECONDS: Final = 120.0  # latency, preemptions
SHIFT_SECONDS: Final = (60.0, 120.0, 300.0)  # recent shape: the shortest of these with enough requests
RATIO_SECONDS: Final = 300.0
CARRY_SECONDS: Final = 600.0  # how long a silent pod's last readings stand in for it
STILL_SECONDS: Final = 120.0  # requests in flight and no counter moving for this long: frozen
LATE_SECONDS: Final = 1.0  # a sample this much later than two intervals is late, not stale
SKEW_SECONDS: Final = 5.0
P95: Final = 0.95
FIRST_STARTS: Final = 3.0  # expected ones since a pod was created, after which it may have been ready before
WARM_REQUESTS: Final = 50.0  # before the hit rate means something
PRACTISED_TOKENS: Final = 1000.0  # generated before the speed does: the first steps compile and allocate
BUSY_RUNNING: Final = 2.0  # above this at both ends of an interval the engine was busy throughout


@dataclass(frozen=True, slots=True)
class Reading:
    """One pod's track, cut to the windows that count for it."""

    signals: PodSignals
    sample: PodSample | None = None
    tick_rate: float | None = None  # arrivals per second
    minute_rate: float | None = None
    steady_rate: float | None = None
    recent: Counters | None = None
    shape: Counters | None = None
    warm_shape: Counters | None = None
    ttft: Histogram | None = None
    tpot: Histogram | None = None
    running_change: float = 0.0  # over the shape window
    shifts: tuple[tuple[Counters | None, float], ...] = ()  # change and running change per `SHIFT_SECONDS`
    problems: frozenset[str] = frozenset()


def read_pod(
    pod: PodState, track: Track | None, now: float, interval: float, start_seconds: float
) -> Reading:
    """What one pod shows at `now`; without a sample, only what Kubernetes knows of it."""
    last = track.last if track else None
    if track is None or last is None:
        problems = frozenset({faults.STALE}) if pod.phase is PodPhase.READY else frozenset[str]()
        age = max(0.0, now - pod.created_at)
        return Reading(
            PodSignals(pod.name, pod.uid, pod.phase, age, fresh=False, warm=False), problems=problems
        )
    load_seconds = start_seconds if pod.ready_at is None else max(0.0, pod.ready_at - pod.created_at)
    warm_at = pod.created_at + 2 * load_seconds
    problems = _problems(pod, track, now - last.at, interval)
    fresh = not problems & {faults.STALE, faults.FROZEN, faults.FUTURE_TIME_STAMP}
    warm = now >= warm_at and (last.sample.finished_requests or 0.0) >= WARM_REQUESTS
    practised = now >= warm_at and (last.sample.generation_tokens or 0.0) >= PRACTISED_TOKENS
    complete = track.complete_since("finished_requests", "prompt_tokens", "generation_tokens", "ttft")
    cached_since = max(warm_at, track.complete_since("prefix_queries", "prefix_hits", "prompt_tokens") or 0.0)
    windows = _Windows(
        shape=track.window(SHAPE_SECONDS, since=complete),
        recent=track.window(RECENT_SECONDS, since=track.complete_since("finished_requests", "preemptions")),
        warm_shape=track.window(SHAPE_SECONDS, since=cached_since) if warm else None,
        ratio=track.window(RATIO_SECONDS),
        steps=_steps(track, interval, warm_at) if practised and fresh else None,
    )
    signals = _signals(pod, last.sample, windows, now=now, fresh=fresh, warm=warm)
    if now - last.at > CARRY_SECONDS:
        return Reading(signals, problems=problems)
    shape, recent, warm_shape = windows.shape, windows.recent, windows.warm_shape
    return Reading(
        signals, last.sample,
        tick_rate=_rate(pod, track, interval, start_seconds),
        minute_rate=_rate(pod, track, RATE_SECONDS, start_seconds),
        steady_rate=_rate(pod, track, STEADY_SECONDS, start_seconds),
        recent=recent.change if recent else None, shape=shape.change if shape else None,
        warm_shape=warm_shape.change if warm_shape else None,
        ttft=growth(recent.first.ttft, recent.last.ttft) if recent and fresh else None,
        tpot=windows.tpot if fresh else None,
        running_change=running_change(shape.first.sample, last.sample) if shape else 0.0,
        shifts=tuple(_shift(track, seconds, complete) for seconds in SHIFT_SECONDS),
        problems=problems,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Windows:
    shape: Window | None
    recent: Window | None
    warm_shape: Window | None
    ratio: Window | None
    steps: StepWindow | None

    @property
    def tpot(self) -> Histogram | None:
        return growth(self.recent.first.tpot, self.recent.last.tpot) if self.recent else None


def _signals(
    pod: PodState, sample: PodSample, windows: _Windows, *, now: float, fresh: bool, warm: bool
) -> PodSignals:
    """Readings of now only from a fresh sample; what the engine was started with from any."""
    recent, tpot = windows.recent, windows.tpot if fresh else None
    cached = windows.warm_shape or windows.shape
    return PodSignals(
        pod.name, pod.uid, pod.phase, max(0.0, now - pod.created_at), fresh=fresh, warm=warm,
        sample_age_seconds=now - sample.at,
        load_seconds=None if pod.ready_at is None else max(0.0, pod.ready_at - pod.created_at),
        running=sample.running if fresh else None, waiting=sample.waiting if fresh else None,
        kv_usage=sample.kv_usage if fresh else None,
        kv_capacity_tokens=sample.kv_capacity_tokens, block_size=sample.block_size,
        max_num_seqs=sample.max_num_seqs, max_num_active_seqs=sample.max_num_active_seqs,
        hit_rate=quotient(cached.change.clean_hits, cached.change.clean_queries) if cached else None,
        hit_queries=cached.change.clean_queries if cached else None,
        prefill_decode_ratio=prefill_decode_ratio([windows.ratio.change]) if windows.ratio else None,
        finished=recent.change.finished if recent else None,
        preemptions_per_request=preemptions_per_request([recent.change]) if recent and fresh else None,
        tpot_p95_at_least_seconds=at_least(tpot, P95) if tpot else None,
        steps=windows.steps,
    )  # fmt: skip


def _problems(pod: PodState, track: Track, sample_age: float, interval: float) -> frozenset[str]:
    last = track.last
    assert last is not None, "only called with a sample"
    sample, found = last.sample, set(last.sample.faults)
    if pod.phase is not PodPhase.READY:
        return frozenset(found)
    if sample_age > 2 * interval + LATE_SECONDS:
        found.add(faults.STALE)
    if sample_age < -SKEW_SECONDS:
        found.add(faults.FUTURE_TIME_STAMP)
    if (
        (sample.running or sample.waiting)
        and track.moved_at is not None
        and last.at - track.moved_at >= STILL_SECONDS
    ):
        found.add(faults.FROZEN)
    if sample.kv_usage is None:
        found.add(faults.KV_UNKNOWN)
    if sample.finished_requests is None:
        found.add(faults.REQUESTS_UNKNOWN)
    if track.reset_within(2 * interval):
        found.add(faults.COUNTER_RESET)
    return frozenset(found)


def _rate(pod: PodState, track: Track, seconds: float, start_seconds: float) -> float | None:
    """Arrivals per second over the last `seconds`.

    A pod that became ready inside the window had no arrivals before: they are spread over the whole window, or
    a new pod that fills at once would count requests twice, with the pods they used to go to. Those before its
    first sample count as well: a new pod draws most of the traffic in its first seconds.
    """
    last, since = track.last, track.complete_since("finished_requests")
    assert last is not None, "only called with a sample"
    new = pod.ready_at is not None and pod.ready_at > last.at - seconds
    window = track.window(seconds, since=since)
    if new and since is None and _counts_from_birth(pod, track, seconds, start_seconds):
        finished, inside = last.sample.finished_requests, (last.sample.running, last.sample.waiting)
        return None if finished is None else (finished + sum(n for n in inside if n is not None)) / seconds
    if window is None or window.change.arrivals is None or not window.change.covered_seconds:
        return None
    span = max(seconds if new else 0.0, window.change.covered_seconds)
    return window.change.arrivals / span


def _counts_from_birth(pod: PodState, track: Track, seconds: float, start_seconds: float) -> bool:
    """Whether all that the pod has counted came since it became ready, and some of it before its first sample.

    Not so if it was ready before and is again, which takes longer than a start since it was created, or if its engine
    restarted.
    """
    assert pod.ready_at is not None, "only called with a pod that was ready"
    unseen = track.first_at is not None and track.first_at > pod.ready_at
    first_start = pod.ready_at - pod.created_at <= FIRST_STARTS * start_seconds
    return unseen and first_start and not track.reset_within(seconds)


def _shift(track: Track, seconds: float, since: float | None) -> tuple[Counters | None, float]:
    window = track.window(seconds, since=since)
    return (
        (None, 0.0)
        if window is None
        else (window.change, running_change(window.first.sample, window.last.sample))
    )


def _steps(track: Track, interval: float, warm_at: float) -> StepWindow | None:
    """Means per engine step over the last interval; None if it had a preemption, a reset, or an engine partly idle."""
    window = track.window(interval, since=warm_at)
    if window is None or window.change.preemptions or window.last.dropped:
        return None
    change, first, last = window.change, window.first.sample, window.last.sample
    tokens, busy = kv_tokens(last), change.busy_seconds
    if busy is None and min(first.running or 0.0, last.running or 0.0) > BUSY_RUNNING:
        busy = change.covered_seconds
    gap = quotient(change.gap_seconds, change.gaps)
    steps = change.steps or (busy / gap if busy and gap else None)
    if not steps or not busy or tokens is None or change.generated is None or change.computed is None:
        return None
    before = kv_tokens(first)
    held = tokens if before is None else (tokens + before) / 2
    return StepWindow(steps, busy / steps, change.computed / steps, change.generated / steps, held)

"""Pod states and sample windows -> one `Observation`: rates, request shape, the golden metrics, latency, faults.

The three golden metrics are the token hit rate, the KV memory in use by live requests, and prefill over decode time.
Ratios are sums over sums, never means of ratios, so idle pods do not dilute them. A pod without a fresh sample keeps
its last rates for some minutes, so that losing a scrape looks like nothing happening rather than like load vanishing;
`fresh` tells the deciding code how much of the picture is current. Pods that are not in `pods` do not exist.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from kvis_operator.signals import faults
from kvis_operator.signals.observation import Observation, PodPhase, PodSignals, PodState, StepWindow
from kvis_operator.signals.sample import Histogram, PodSample
from kvis_operator.signals.series import Counters, Fleet, Track, at_least, growth, merge, quantile

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
WARM_REQUESTS: Final = 50.0
RECENT_REQUESTS: Final = 100.0  # fewer do not make a recent shape
BUSY_RUNNING: Final = 2.0  # above this at both ends of an interval the engine was busy throughout


@dataclass(frozen=True, slots=True)
class _Reading:
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


def observe(
    pods: Sequence[PodState], fleet: Fleet, *, now: float, interval: float, start_seconds: float
) -> Observation:
    """The service at `now`. `interval` is the scrape interval, `start_seconds` the expected time from creation to ready."""
    readings = [_read(pod, fleet.track(pod.uid), now, interval, start_seconds) for pod in pods]
    serving = [r for r in readings if r.signals.phase in (PodPhase.READY, PodPhase.DRAINING)]
    ready = [r for r in serving if r.signals.phase is PodPhase.READY]
    hit_rate, hit_queries, hit_faults = _hit_rate(ready)
    usages = [r.signals.kv_usage for r in ready if r.signals.kv_usage is not None]
    capacities = [r.signals.kv_capacity_tokens for r in ready if r.signals.kv_capacity_tokens]
    ceilings = [r.signals.max_num_seqs for r in ready if r.signals.max_num_seqs]
    ttft, tpot = _merged(r.ttft for r in ready), _merged(r.tpot for r in ready)
    return Observation(
        at=now,
        pods=tuple(r.signals for r in readings),
        rate_15s=_floored(_total(r.tick_rate for r in serving)),
        rate_60s=_floored(_total(r.minute_rate for r in serving)),
        rate_180s=_floored(_total(r.steady_rate for r in serving)),
        input_tokens=_per_request(_input(r.shape) for r in serving),
        output_tokens=_per_request(_output(r.shape, r.running_change) for r in serving),
        recent_input_tokens=_recent([[_input(c) for c, _ in r.shifts] for r in serving]),
        recent_output_tokens=_recent([[_output(c, change) for c, change in r.shifts] for r in serving]),
        hit_rate=hit_rate,
        hit_queries=hit_queries,
        running=_total(r.sample.running for r in ready if r.sample),
        waiting=_total(r.sample.waiting for r in ready if r.sample),
        kv_tokens=_total(_kv_tokens(r.sample) for r in ready if r.sample),
        kv_usage=fmean(usages) if usages else None,
        kv_usage_max=max(usages, default=None),
        kv_capacity_tokens=fmean(capacities) if capacities else None,
        max_num_seqs=min(ceilings, default=None),
        ttft_p95_seconds=quantile(ttft, P95) if ttft else None,
        tpot_p95_seconds=quantile(tpot, P95) if tpot else None,
        ttft_p95_at_least_seconds=at_least(ttft, P95) if ttft else None,
        tpot_p95_at_least_seconds=at_least(tpot, P95) if tpot else None,
        preemptions_per_request=_preemptions([r.recent for r in ready if r.signals.fresh]),
        prefill_decode_ratio=_prefill_decode([_ratio_window(fleet.track(r.signals.uid)) for r in ready]),
        faults=hit_faults.union(*(r.problems for r in ready)),
        model_names=frozenset[str]().union(*(r.sample.model_names for r in ready if r.sample)),
    )


def _read(pod: PodState, track: Track | None, now: float, interval: float, start_seconds: float) -> _Reading:
    age = max(0.0, now - pod.created_at)
    last = track.last if track else None
    if track is None or last is None:
        problems = frozenset({faults.STALE}) if pod.phase is PodPhase.READY else frozenset[str]()
        return _Reading(
            PodSignals(pod.name, pod.uid, pod.phase, age, fresh=False, warm=False), problems=problems
        )
    sample_age = now - last.at
    load_seconds = start_seconds if pod.ready_at is None else max(0.0, pod.ready_at - pod.created_at)
    warm_at = pod.created_at + 2 * load_seconds
    problems = _problems(pod, track, sample_age, interval)
    fresh = not problems & {faults.STALE, faults.FROZEN, faults.FUTURE_TIME_STAMP}
    sample = last.sample
    warm = now >= warm_at and (sample.finished_requests or 0.0) >= WARM_REQUESTS
    complete = track.complete_since("finished_requests", "prompt_tokens", "generation_tokens", "ttft")
    shape = track.window(SHAPE_SECONDS, since=complete)
    recent = track.window(RECENT_SECONDS, since=track.complete_since("finished_requests", "preemptions"))
    cached_since = max(warm_at, track.complete_since("prefix_queries", "prefix_hits", "prompt_tokens") or 0.0)
    warm_shape = track.window(SHAPE_SECONDS, since=cached_since) if warm else None
    tpot = growth(recent.first.tpot, recent.last.tpot) if recent and fresh else None
    hits = warm_shape.change if warm_shape else (shape.change if shape else None)
    ratio = track.window(RATIO_SECONDS)
    signals = PodSignals(
        pod.name, pod.uid, pod.phase, age, fresh=fresh, warm=warm, sample_age_seconds=sample_age,
        load_seconds=None if pod.ready_at is None else load_seconds,
        running=sample.running if fresh else None, waiting=sample.waiting if fresh else None,
        kv_usage=sample.kv_usage if fresh else None,
        kv_capacity_tokens=sample.kv_capacity_tokens, block_size=sample.block_size,
        max_num_seqs=sample.max_num_seqs, max_num_active_seqs=sample.max_num_active_seqs,
        hit_rate=_quotient(hits.clean_hits, hits.clean_queries) if hits else None,
        hit_queries=hits.clean_queries if hits else None,
        prefill_decode_ratio=_prefill_decode([ratio.change]) if ratio else None,
        finished=recent.change.finished if recent else None,
        preemptions_per_request=_preemptions([recent.change]) if recent and fresh else None,
        tpot_p95_at_least_seconds=at_least(tpot, P95) if tpot else None,
        steps=_steps(track, interval, warm_at) if warm and fresh else None,
    )  # fmt: skip
    if sample_age > CARRY_SECONDS:
        return _Reading(signals, problems=problems)
    return _Reading(
        signals, sample,
        tick_rate=_rate(pod, track, interval), minute_rate=_rate(pod, track, RATE_SECONDS),
        steady_rate=_rate(pod, track, STEADY_SECONDS),
        recent=recent.change if recent else None, shape=shape.change if shape else None,
        warm_shape=warm_shape.change if warm_shape else None,
        ttft=growth(recent.first.ttft, recent.last.ttft) if recent and fresh else None,
        tpot=tpot,
        running_change=_running_change(shape.first.sample, sample) if shape else 0.0,
        shifts=tuple(_shift(track, seconds, complete) for seconds in SHIFT_SECONDS),
        problems=problems,
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


def _quotient(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole or whole < 0 else part / whole


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _floored(value: float | None) -> float | None:
    """At least zero: a request given up before it was admitted leaves the queue without finishing."""
    return None if value is None else max(0.0, value)


def _rate(pod: PodState, track: Track, seconds: float) -> float | None:
    """Arrivals per second over the last `seconds`.

    A pod that became ready inside the window had no arrivals before: they are spread over the whole window, or
    a new pod that fills at once would count requests twice, with the pods they used to go to.
    """
    window = track.window(seconds, since=track.complete_since("finished_requests"))
    if window is None or window.change.arrivals is None or not window.change.covered_seconds:
        return None
    new = pod.ready_at is not None and pod.ready_at > window.last.at - seconds
    span = max(seconds if new else 0.0, window.change.covered_seconds)
    return window.change.arrivals / span


def _per_request(parts: Iterable[tuple[float, float] | None], enough: float = 1.0) -> float | None:
    known = [part for part in parts if part is not None]
    requests = sum(part[1] for part in known)
    return sum(part[0] for part in known) / requests if requests >= enough else None


def _input(change: Counters | None) -> tuple[float, float] | None:
    """Prompt tokens and the requests they belong to: those that sent a first token, which is when they are counted."""
    if change is None or change.prompt is None:
        return None
    requests = change.started if change.started is not None else change.finished
    return None if requests is None else (change.prompt, requests)


def _output(change: Counters | None, running_change: float) -> tuple[float, float] | None:
    """Generated tokens and the requests they belong to; a request still running counts half."""
    if change is None or change.generated is None or change.finished is None:
        return None
    return (change.generated, max(0.0, change.finished + 0.5 * running_change))


def _shift(track: Track, seconds: float, since: float | None) -> tuple[Counters | None, float]:
    window = track.window(seconds, since=since)
    return (
        (None, 0.0)
        if window is None
        else (window.change, _running_change(window.first.sample, window.last.sample))
    )


def _recent(pods: Sequence[Sequence[tuple[float, float] | None]]) -> float | None:
    """Tokens per request over the shortest window that holds enough requests."""
    windows = (_per_request(parts, RECENT_REQUESTS) for parts in zip(*pods, strict=True))
    return next((mean for mean in windows if mean is not None), None)


def _running_change(first: PodSample, last: PodSample) -> float:
    return (last.running or 0.0) - (first.running or 0.0)


def _kv_tokens(sample: PodSample) -> float | None:
    if sample.kv_usage is None or sample.kv_capacity_tokens is None:
        return None
    return sample.kv_usage * sample.kv_capacity_tokens


def _hit_rate(ready: Sequence[_Reading]) -> tuple[float | None, float | None, frozenset[str]]:
    """Token hit rate over warm pods without preemptions, the tokens it rests on, and what is implausible about it."""
    problems: set[str] = set()
    hits = queries = 0.0
    for change in (r.warm_shape for r in ready if r.warm_shape is not None):
        if change.clean_hits is None or not change.clean_queries:
            continue
        if change.clean_hits > change.clean_queries:
            problems.add(faults.HITS_EXCEED_QUERIES)
        elif change.clean_hits == 0 and (change.cached or 0.0) > 0:
            problems.add(faults.HIT_COUNTER_DEAD)
        else:
            hits, queries = hits + change.clean_hits, queries + change.clean_queries
            continue
        if change.cached is not None and change.prompt and change.cached <= change.prompt:  # a second witness
            hits, queries = hits + change.cached, queries + change.prompt
    return _quotient(hits, queries), queries or None, frozenset(problems)


def _preemptions(changes: Sequence[Counters | None]) -> float | None:
    """Preemptions per finished request."""
    preemptions = _total(change.preemptions for change in changes if change)
    finished = _total(change.finished for change in changes if change)
    if preemptions is None or finished is None:
        return None
    return preemptions / max(1.0, finished)


def _ratio_window(track: Track | None) -> Counters | None:
    window = track.window(RATIO_SECONDS) if track else None
    return window.change if window else None


def _prefill_decode(changes: Sequence[Counters | None]) -> float | None:
    """Mean prefill time over mean time between tokens. Grows with prompt length: compare it with its own past."""
    known = [change for change in changes if change is not None]
    prefill = _quotient(_total(c.prefill_seconds for c in known), _total(c.prefills for c in known))
    gap = _quotient(_total(c.gap_seconds for c in known), _total(c.gaps for c in known))
    return _quotient(prefill, gap)


def _merged(histograms: Iterable[Histogram | None]) -> Histogram | None:
    return merge([h for h in histograms if h is not None and h.counts and h.counts[-1] > 0])


def _steps(track: Track, interval: float, warm_at: float) -> StepWindow | None:
    """Means per engine step over the last interval; None if it had a preemption, a reset, or an engine partly idle."""
    window = track.window(interval, since=warm_at)
    if window is None or window.change.preemptions or window.last.dropped:
        return None
    change, first, last = window.change, window.first.sample, window.last.sample
    tokens, busy = _kv_tokens(last), change.busy_seconds
    if busy is None and min(first.running or 0.0, last.running or 0.0) > BUSY_RUNNING:
        busy = change.covered_seconds
    gap = _quotient(change.gap_seconds, change.gaps)
    steps = change.steps or (busy / gap if busy and gap else None)
    if not steps or not busy or tokens is None or change.generated is None or change.computed is None:
        return None
    before = _kv_tokens(first)
    kv_tokens = tokens if before is None else (tokens + before) / 2
    return StepWindow(steps, busy / steps, change.computed / steps, change.generated / steps, kv_tokens)

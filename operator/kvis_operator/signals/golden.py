"""Pod states and sample windows -> one `Observation`: rates, request shape, the golden metrics, latency, faults.

The three golden metrics are the token hit rate, the KV memory in use by live requests, and prefill over decode time.
Ratios are sums over sums, never means of ratios, so idle pods do not dilute them. A pod without a fresh sample keeps
its last rates for some minutes, so that losing a scrape looks like nothing happening rather than like load vanishing;
`fresh` tells the deciding code how much of the picture is current. Pods that are not in `pods` do not exist.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final

from kvis_operator.signals import faults
from kvis_operator.signals.histogram import at_least, merge, quantile
from kvis_operator.signals.observation import Observation, PodPhase, PodState
from kvis_operator.signals.pod_reading import P95, RATIO_SECONDS, Reading, read_pod
from kvis_operator.signals.ratios import (
    kv_tokens,
    preemptions_per_request,
    prefill_decode_ratio,
    quotient,
    total,
)
from kvis_operator.signals.sample import Histogram
from kvis_operator.signals.series import Counters, Fleet, Track

RECENT_REQUESTS: Final = 100.0  # fewer do not make a recent shape


def observe(
    pods: Sequence[PodState], fleet: Fleet, *, now: float, interval: float, start_seconds: float
) -> Observation:
    """The service at `now`. `interval` is that of scraping, `start_seconds` the expected time to ready."""
    readings = [read_pod(pod, fleet.track(pod.uid), now, interval, start_seconds) for pod in pods]
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
        rate_15s=_floored(total(r.tick_rate for r in serving)),
        rate_60s=_floored(total(r.minute_rate for r in serving)),
        rate_180s=_floored(total(r.steady_rate for r in serving)),
        input_tokens=_per_request(_input(r.shape) for r in serving),
        output_tokens=_per_request(_output(r.shape, r.running_change) for r in serving),
        shape_seconds=max((s for r in serving if r.shape and (s := r.shape.covered_seconds)), default=0.0),
        recent_input_tokens=_recent([[_input(c) for c, _ in r.shifts] for r in serving]),
        recent_output_tokens=_recent([[_output(c, change) for c, change in r.shifts] for r in serving]),
        hit_rate=hit_rate,
        hit_queries=hit_queries,
        running=total(r.sample.running for r in ready if r.sample),
        waiting=total(r.sample.waiting for r in ready if r.sample),
        kv_tokens=total(kv_tokens(r.sample) for r in ready if r.sample),
        kv_usage=fmean(usages) if usages else None,
        kv_usage_max=max(usages, default=None),
        kv_capacity_tokens=fmean(capacities) if capacities else None,
        max_num_seqs=min(ceilings, default=None),
        ttft_p95_seconds=quantile(ttft, P95) if ttft else None,
        tpot_p95_seconds=quantile(tpot, P95) if tpot else None,
        ttft_p95_at_least_seconds=at_least(ttft, P95) if ttft else None,
        tpot_p95_at_least_seconds=at_least(tpot, P95) if tpot else None,
        preemptions_per_request=preemptions_per_request([r.recent for r in ready if r.signals.fresh]),
        prefill_decode_ratio=prefill_decode_ratio([_ratio_window(fleet.track(r.signals.uid)) for r in ready]),
        faults=hit_faults.union(*(r.problems for r in ready)),
        model_names=frozenset[str]().union(*(r.sample.model_names for r in ready if r.sample)),
    )


def _floored(value: float | None) -> float | None:
    """At least zero: a request given up before it was admitted leaves the queue without finishing."""
    return None if value is None else max(0.0, value)


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


def _recent(pods: Sequence[Sequence[tuple[float, float] | None]]) -> float | None:
    """Tokens per request over the shortest window that holds enough requests."""
    windows = (_per_request(parts, RECENT_REQUESTS) for parts in zip(*pods, strict=True))
    return next((mean for mean in windows if mean is not None), None)


def _hit_rate(ready: Sequence[Reading]) -> tuple[float | None, float | None, frozenset[str]]:
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
    return quotient(hits, queries), queries or None, frozenset(problems)


def _ratio_window(track: Track | None) -> Counters | None:
    window = track.window(RATIO_SECONDS) if track else None
    return window.change if window else None


def _merged(histograms: Iterable[Histogram | None]) -> Histogram | None:
    return merge([h for h in histograms if h is not None and h.counts and h.counts[-1] > 0])

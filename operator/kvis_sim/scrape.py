"""What a scrape of a simulated pod returns: its counters at that moment, or what a fault makes of them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvis_operator.signals.faults import NOT_FINITE
from kvis_operator.signals.sample import Histogram, PodSample
from kvis_sim.meters import TOKEN_BOUNDS
from kvis_sim.pods import EPOCH, SimPod
from kvis_sim.scenario import Fault, FaultKind, Scenario

MODEL = frozenset({"model"})
COUNTERS = (
    *("prefix_queries", "prefix_hits", "prompt_tokens", "prompt_tokens_cached", "prompt_tokens_computed"),
    *("generation_tokens", "finished_requests", "preemptions", "engine_steps", "engine_busy_seconds"),
)
HISTOGRAMS = ("ttft", "tpot", "inter_token", "prefill")
UNREADABLE = ("running", "waiting", "kv_usage", "prefix_hits", "generation_tokens")  # what the NaN fault hits


def take(pod: SimPod, scenario: Scenario, now: float) -> PodSample:
    """A healthy scrape at `now`, with the stretch of steps under way counted up to now."""
    replica, kv, meter = pod.replica, pod.replica.kv, pod.replica.meter
    done = replica.steps_done(now)
    step = replica.step + done
    computed = meter.computed_prompt_tokens + done * replica.prefill_per_step
    busy = meter.busy_seconds + replica.seconds_done(done)
    return PodSample(
        at=EPOCH + now,
        running=float(replica.running),
        waiting=float(replica.waiting),
        kv_usage=kv.in_use(step) / kv.total_blocks,
        kv_capacity_tokens=float(kv.total_blocks * kv.block_size),
        kv_cached_blocks=float(kv.idle_blocks),
        block_size=kv.block_size,
        max_num_seqs=scenario.max_num_seqs,
        max_num_active_seqs=replica.cap,
        prefix_queries=float(meter.prefix_queries),
        prefix_hits=float(meter.prefix_hits),
        prompt_tokens=float(meter.prompt_tokens),
        prompt_tokens_cached=float(meter.first_hits),
        prompt_tokens_computed=float(computed),
        generation_tokens=float(meter.generated_tokens + done * replica.decoding),
        finished_requests=float(meter.finished),
        preemptions=float(meter.preemptions),
        engine_steps=float(meter.steps + done),
        engine_busy_seconds=busy,
        ttft=meter.ttft.exposed(),
        tpot=meter.tpot.exposed(),
        inter_token=meter.inter_token.exposed(TOKEN_BOUNDS),
        prefill=meter.prefill.exposed(),
        model_names=MODEL,
    )


@dataclass(slots=True)
class _Memory:
    """What a pod's faults remember: sample at the reset, last sample before freezing, hits when they died."""

    baseline: PodSample | None = None
    frozen: PodSample | None = None
    hits: float | None = None


class Scraper:
    """Scrapes every ready or draining pod, through the faults of the moment."""

    def __init__(self, scenario: Scenario, rng: random.Random) -> None:
        self._scenario = scenario
        self._rng = rng
        self._memory: dict[str, _Memory] = {}

    def reset_counters(self, pod: SimPod, now: float) -> None:
        """From now on the pod's counters count from 0 again."""
        self._of(pod).baseline = take(pod, self._scenario, now)

    def forget(self, pod: SimPod) -> None:
        self._memory.pop(pod.uid, None)

    def scrape(self, pod: SimPod, now: float, faults: Sequence[Fault]) -> PodSample | None:
        """None: the scrape failed. `faults` are those that touch this pod now."""
        memory = self._of(pod) if faults else self._memory.get(pod.uid)
        sample = take(pod, self._scenario, now)
        if memory and memory.baseline:
            sample = _since(sample, memory.baseline)
        for fault in faults:
            spoilt = self._spoil(sample, fault, memory or _Memory())
            if spoilt is None:
                return None
            sample = spoilt
        if memory and not faults:
            memory.frozen = memory.hits = None
        return sample

    def _of(self, pod: SimPod) -> _Memory:
        return self._memory.setdefault(pod.uid, _Memory())

    def _spoil(self, sample: PodSample, fault: Fault, memory: _Memory) -> PodSample | None:
        match fault.kind:
            case FaultKind.SCRAPE_LOSS:
                return None if self._rng.random() < fault.fraction else sample
            case FaultKind.NAN:
                return _unreadable(sample)
            case FaultKind.FROZEN:
                memory.frozen = memory.frozen or sample
                return memory.frozen
            case FaultKind.RENAMED:
                return _without(sample, fault.field)
            case FaultKind.DEAD_HITS:
                memory.hits = sample.prefix_hits if memory.hits is None else memory.hits
                return replace(sample, prefix_hits=memory.hits)
            case _:
                return sample


def _unreadable(sample: PodSample) -> PodSample:
    """What parsing makes of NaN: the field is unknown, and the sample says why."""
    change: dict[str, Any] = dict.fromkeys(UNREADABLE)
    return replace(sample, **change, faults=frozenset(f"{NOT_FINITE}:{field}" for field in UNREADABLE))


def _without(sample: PodSample, field: str) -> PodSample:
    change: dict[str, Any] = {field: None}
    return replace(sample, **change)


def _since(sample: PodSample, baseline: PodSample) -> PodSample:
    changes: dict[str, Any] = {}
    for name in COUNTERS:
        changes[name] = getattr(sample, name) - getattr(baseline, name)
    for name in HISTOGRAMS:
        new, old = getattr(sample, name), getattr(baseline, name)
        counts = tuple(a - b for a, b in zip(new.counts, old.counts, strict=True))
        changes[name] = Histogram(new.bounds, counts, new.total - old.total)
    return replace(sample, **changes)

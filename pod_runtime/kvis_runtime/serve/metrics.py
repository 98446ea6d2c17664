"""The /metrics page: vLLM's series under vLLM's names, and `kvis_runtime_*` for what vLLM lacks.

Two sources. What requests experience (latencies, ends) is observed as it happens, on the event loop. What
the engine counts is read from its last snapshot at scrape time, so the page costs the engine nothing. Names
and their meaning are in `kvis_kv.series`; buckets are vLLM 0.32's. Every label value exists from the start,
at zero, except the engine's own series, which are absent until it is loaded: unknown is not zero.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kvis_kv import series
from kvis_runtime.engine.request import Output
from kvis_runtime.serve.engine_thread import Snapshot
from kvis_runtime.serve.generation import Timeline
from kvis_runtime.serve.lifecycle import Lifecycle

ENGINE_INDEX: Final = "0"  # vLLM numbers its data-parallel engines; there is one here
LABELS: Final = ("model_name", "engine")
FINISH_REASONS: Final = ("stop", "length", "abort", "error", "repetition")
QUEUE_FULL: Final = "max_num_queued_reqs"

TTFT_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0,
    2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0,
    2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_BUCKETS: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
ITERATION_BUCKETS: Final = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Settings of the cache that the engine's snapshot does not hold."""

    dtype: str
    prefix_caching: bool


class ServingMetrics:
    """All series of one served model."""

    def __init__(self, model_name: str, cache: CacheConfig, lifecycle: Lifecycle) -> None:
        # A `_created` series per counter would add a third to the page for nothing.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._values = (model_name, ENGINE_INDEX)
        self._ttft = self._histogram(
            series.TTFT_SECONDS, "Time from arrival to the first token", TTFT_BUCKETS
        )
        self._inter_token = self._histogram(
            series.INTER_TOKEN_SECONDS, "Time between two tokens", TOKEN_BUCKETS
        )
        self._tpot = self._histogram(
            series.TPOT_SECONDS, "Mean time per token after the first", TOKEN_BUCKETS
        )
        self._e2e = self._histogram(
            series.E2E_SECONDS, "Time from arrival to the last token", REQUEST_BUCKETS
        )
        self._queue = self._histogram(series.QUEUE_SECONDS, "Time waiting to be scheduled", REQUEST_BUCKETS)
        self._prefill = self._histogram(
            series.PREFILL_SECONDS, "Time from scheduling to first token", REQUEST_BUCKETS
        )
        self._decode = self._histogram(
            series.DECODE_SECONDS, "Time from first to last token", REQUEST_BUCKETS
        )
        self._iteration = self._histogram(
            series.ITERATION_TOKENS, "Tokens computed by a step", ITERATION_BUCKETS
        )
        self._success = self._counter(
            series.REQUEST_SUCCESS, "Ended requests", "finished_reason", FINISH_REASONS
        )
        self._rejected = self._counter(
            series.ADMISSION_REJECTIONS, "Refused requests", "reason", (QUEUE_FULL,)
        )
        self._collector = EngineCollector(model_name, cache, lifecycle)
        self._registry.register(self._collector)

    def watch(self, snapshot: Callable[[], Snapshot | None]) -> None:
        """Expose the engine whose last state `snapshot` gives; None before it is loaded."""
        self._collector.snapshot = snapshot

    def answered(self, timeline: Timeline, at: float, new_tokens: int) -> None:
        """Note tokens of a choice that arrived at `at`."""
        if new_tokens == 0:
            return
        if timeline.first_at is None:
            timeline.first_at = at
            self._ttft.observe(at - timeline.arrived_at)
        elif timeline.last_at is not None:
            self._inter_token.observe(at - timeline.last_at)
        timeline.last_at = at
        timeline.tokens += new_tokens

    def finished(self, reason: str, timeline: Timeline, output: Output | None) -> None:
        """Note the end of a choice. Latencies are those of choices that came to their own end."""
        self._success.labels(*self._values, reason).inc()
        if output is None or timeline.first_at is None or timeline.last_at is None:
            return
        self._e2e.observe(timeline.last_at - timeline.arrived_at)
        self._decode.observe(timeline.last_at - timeline.first_at)
        if (
            timeline.tokens > 1
        ):  # one token has no time between tokens; a zero would make the mean look better
            self._tpot.observe((timeline.last_at - timeline.first_at) / (timeline.tokens - 1))
        scheduled_at = output.timings.first_scheduled
        if scheduled_at is not None:
            self._queue.observe(max(0.0, scheduled_at - timeline.arrived_at))
            self._prefill.observe(max(0.0, timeline.first_at - scheduled_at))

    def stepped(self, tokens: int) -> None:
        """Note how many tokens a step computed. Called from the engine's thread."""
        self._iteration.observe(tokens)

    def rejected(self) -> None:
        """Note a request refused because the queue was full."""
        self._rejected.labels(*self._values, QUEUE_FULL).inc()

    def page(self) -> bytes:
        """Return the page in Prometheus' text format 0.0.4."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        histogram = Histogram(name, text, LABELS, registry=self._registry, buckets=buckets)
        return histogram.labels(*self._values)

    def _counter(self, name: str, text: str, label: str, values: Sequence[str]) -> Counter:
        counter = Counter(name, text, (*LABELS, label), registry=self._registry)
        for value in values:
            counter.labels(*self._values, value)
        return counter


class EngineCollector(Collector):
    """Turns the engine's last snapshot into series at scrape time."""

    def __init__(self, model_name: str, cache: CacheConfig, lifecycle: Lifecycle) -> None:
        self._values = [model_name, ENGINE_INDEX]
        self._cache = cache
        self._lifecycle = lifecycle
        self.snapshot: Callable[[], Snapshot | None] = lambda: None

    def describe(self) -> Iterator[Metric]:
        """Name nothing in advance: what is exposed depends on whether the engine is loaded."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the series."""
        yield self._gauge(series.DRAINING, "1 while the pod leaves", float(self._lifecycle.is_draining))
        snapshot = self.snapshot()
        if snapshot is None:
            return
        yield from self._gauges(snapshot)
        yield from self._counters(snapshot)
        yield self._blocks(snapshot)
        yield self._prompt_tokens_by_source(snapshot)
        yield self._cache_config(snapshot)

    def _gauges(self, snapshot: Snapshot) -> Iterator[Metric]:
        stats = snapshot.stats
        usage = stats.blocks_referenced / stats.blocks_total
        yield self._gauge(series.REQUESTS_RUNNING, "Requests in the running batch", stats.running)
        yield self._gauge(series.REQUESTS_WAITING, "Requests waiting to run", stats.waiting)
        yield self._gauge(series.KV_CACHE_USAGE, "Share of KV blocks held by live requests (0-1)", usage)
        yield self._gauge(series.MAX_NUM_SEQS, "Ceiling of running requests", stats.max_num_seqs)
        yield self._gauge(series.MAX_NUM_ACTIVE_SEQS, "Live cap on running requests", stats.cap)

    def _counters(self, snapshot: Snapshot) -> Iterator[Metric]:
        stats = snapshot.stats
        yield self._counter(series.PREFIX_QUERIES, "Prompt tokens looked up", stats.prefix_queries)
        yield self._counter(series.PREFIX_HITS, "Prompt tokens found cached", stats.prefix_hits)
        yield self._counter(series.PROMPT_TOKENS, "Prompt tokens processed", stats.prompt_tokens)
        yield self._counter(series.PROMPT_TOKENS_CACHED, "Prompt tokens not recomputed", stats.prefix_hits)
        yield self._counter(series.GENERATION_TOKENS, "Tokens generated", stats.generation_tokens)
        yield self._counter(series.PREEMPTIONS, "Requests set back for want of blocks", stats.preemptions)
        yield self._counter(series.ENGINE_STEPS, "Steps of the engine", stats.steps)
        yield self._counter(series.ENGINE_BUSY_SECONDS, "Time spent in steps", snapshot.busy_seconds)

    def _blocks(self, snapshot: Snapshot) -> Metric:
        stats = snapshot.stats
        family = GaugeMetricFamily(series.KV_BLOCKS, "KV blocks by state", labels=[*LABELS, "state"])
        family.add_metric([*self._values, "referenced"], stats.blocks_referenced)
        family.add_metric([*self._values, "cached"], stats.blocks_cached)
        family.add_metric([*self._values, "free"], stats.blocks_free)
        return family

    def _prompt_tokens_by_source(self, snapshot: Snapshot) -> Metric:
        stats = snapshot.stats
        family = CounterMetricFamily(
            series.PROMPT_TOKENS_BY_SOURCE,
            "Prompt tokens by where they came from",
            labels=[*LABELS, "source"],
        )
        family.add_metric([*self._values, "local_compute"], stats.prompt_tokens - stats.prefix_hits)
        family.add_metric([*self._values, "local_cache_hit"], stats.prefix_hits)
        family.add_metric([*self._values, "external_kv_transfer"], 0)
        return family

    def _cache_config(self, snapshot: Snapshot) -> Metric:
        stats = snapshot.stats
        configuration = {
            "engine": ENGINE_INDEX,
            "block_size": str(stats.block_size),
            "cache_dtype": self._cache.dtype,
            "num_gpu_blocks": str(stats.blocks_total),
            "kv_cache_size_tokens": str(stats.kv_capacity_tokens),
            "enable_prefix_caching": str(self._cache.prefix_caching),
        }
        family = GaugeMetricFamily(
            series.CACHE_CONFIG_INFO, "Cache configuration", labels=list(configuration)
        )
        family.add_metric(list(configuration.values()), 1)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=LABELS)
        family.add_metric(self._values, value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=LABELS)
        family.add_metric(self._values, value)
        return family

"""One scrape of one pod, reduced to what deciding needs.

Made by `exposition.parse` from Prometheus text, or by the simulator directly. Series of several engines (or API
servers) under one pod are already merged: counters and request gauges summed, KV usage weighted by capacity.
A field is None when the pod did not report it: missing is never zero.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative Prometheus histogram: `counts[i]` observations <= `bounds[i]`; the last bound is +Inf."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float  # sum of the observed values


@dataclass(frozen=True, slots=True)
class PodSample:
    at: float  # Unix seconds: the sample's own time stamp where it has one, else the time it was fetched

    # Gauges
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None  # 0-1, blocks referenced by live requests / all blocks
    kv_capacity_tokens: float | None = None
    kv_cached_blocks: float | None = None  # evictable prefix blocks; our engine only
    block_size: int | None = None
    max_num_seqs: int | None = None  # ceiling
    max_num_active_seqs: int | None = None  # live cap

    # Counters since the process started
    prefix_queries: float | None = None  # tokens
    prefix_hits: float | None = None  # tokens
    prompt_tokens: float | None = None
    prompt_tokens_cached: float | None = None
    prompt_tokens_computed: float | None = None  # prefill work really done
    generation_tokens: float | None = None
    finished_requests: float | None = None
    preemptions: float | None = None
    engine_steps: float | None = None
    engine_busy_seconds: float | None = None

    # Histograms
    ttft: Histogram | None = None
    tpot: Histogram | None = None
    inter_token: Histogram | None = None
    prefill: Histogram | None = None

    model_names: frozenset[str] = frozenset()
    faults: frozenset[str] = field(
        default_factory=frozenset
    )  # e.g. "kv_usage_out_of_range", "alias:kv_usage"

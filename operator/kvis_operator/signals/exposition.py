"""Prometheus text of one pod -> one `PodSample`.

Lines of families that deciding does not need are dropped before the parser sees them: a vLLM page has some
thousand lines, of which about a hundred matter, and the parser is the cost of a scrape. Series of several engines
or API servers are merged here, so nobody above knows how many there were. Names come from `kvis_kv.series` only.
A value that is absent, not finite or negative is None and never 0.
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from kvis_kv import series
from kvis_operator.signals import faults
from kvis_operator.signals.sample import Histogram, PodSample

CLOCK_SKEW_SECONDS: Final = (
    5.0  # a stamp this far ahead of the fetch is skew between two machines, not the future
)

_SUMMED: Final = {
    "running": series.REQUESTS_RUNNING,
    "waiting": series.REQUESTS_WAITING,
    "max_num_seqs": series.MAX_NUM_SEQS,
    "max_num_active_seqs": series.MAX_NUM_ACTIVE_SEQS,
    "prefix_queries": series.PREFIX_QUERIES,
    "prefix_hits": series.PREFIX_HITS,
    "prompt_tokens": series.PROMPT_TOKENS,
    "prompt_tokens_cached": series.PROMPT_TOKENS_CACHED,
    "generation_tokens": series.GENERATION_TOKENS,
    "finished_requests": series.REQUEST_SUCCESS,
    "preemptions": series.PREEMPTIONS,
    "engine_steps": series.ENGINE_STEPS,
    "engine_busy_seconds": series.ENGINE_BUSY_SECONDS,
}
_HISTOGRAMS: Final = {
    "ttft": series.TTFT_SECONDS,
    "tpot": series.TPOT_SECONDS,
    "inter_token": series.INTER_TOKEN_SECONDS,
    "prefill": series.PREFILL_SECONDS,
}
_OTHERS: Final = (
    series.KV_CACHE_USAGE,
    series.PROMPT_TOKENS_BY_SOURCE,
    series.CACHE_CONFIG_INFO,
    series.KV_BLOCKS,
    f"{series.ITERATION_TOKENS}_count",
)


class _Series(NamedTuple):
    labels: dict[str, str]
    value: float
    stamp: float | None


_Found = dict[str, list[_Series]]


def _spellings(name: str) -> tuple[str, ...]:
    """Current name first, then older ones; a counter may lack its `_total`."""
    older = series.ALIASES.get(name, ())
    bare = (name.removesuffix("_total"),) if name.endswith("_total") else ()
    return tuple(dict.fromkeys((name, *older, *bare)))


def _needed_names() -> frozenset[str]:
    names = {spelling for name in (*_SUMMED.values(), *_OTHERS) for spelling in _spellings(name)}
    for histogram in _HISTOGRAMS.values():
        names |= {f"{s}_{part}" for s in _spellings(histogram) for part in ("bucket", "sum", "count")}
    return frozenset(names)


_NEEDED: Final = _needed_names()


def parse(text: str, *, at: float) -> PodSample:
    """The pod's sample; `at` is when the text was fetched (Unix seconds). What cannot be read is a fault."""
    problems: set[str] = set()
    found = _read(_needed_lines(text), problems)
    values: dict[str, object] = {field: _sum(found, field, name, problems) for field, name in _SUMMED.items()}
    values |= {field: _histogram(found, field, name, problems) for field, name in _HISTOGRAMS.items()}
    for field in ("max_num_seqs", "max_num_active_seqs"):
        values[field] = _whole(values[field])
    if values["engine_steps"] is None:  # vLLM counts its iterations only as the count of a histogram
        values["engine_steps"] = _sum(found, "engine_steps", f"{series.ITERATION_TOKENS}_count", problems)
    capacities = _capacities(found)
    values |= {
        "kv_usage": _kv_usage(found, capacities, problems),
        "kv_capacity_tokens": sum(capacities.values()) if capacities else None,
        "kv_cached_blocks": _labelled_sum(found, series.KV_BLOCKS, "state", "cached"),
        "block_size": _block_size(found),
        "prompt_tokens_computed": _computed(found, values),
        "model_names": frozenset(
            s.labels["model_name"] for many in found.values() for s in many if s.labels.get("model_name")
        ),
    }
    sampled_at = _sampled_at(found, at, problems)
    return PodSample(at=sampled_at, faults=frozenset(problems), **values)  # type: ignore[arg-type]


def _needed_lines(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in _NEEDED:
            lines.append(line)
    return lines


def _read(lines: list[str], problems: set[str]) -> _Found:
    """Series by name. A broken line costs that line only."""
    found: _Found = {}
    try:
        _collect(lines, found)
    except (ValueError, IndexError):
        problems.add(faults.MALFORMED)
        found.clear()
        for line in lines:
            try:
                _collect([line], found)
            except (ValueError, IndexError):
                continue
    return found


def _collect(lines: Iterable[str], found: _Found) -> None:
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            stamp = None if sample.timestamp is None else float(sample.timestamp)
            found.setdefault(sample.name, []).append(_Series(sample.labels, sample.value, stamp))


def _under(found: _Found, field: str, name: str, problems: set[str], suffix: str = "") -> list[_Series]:
    """The series of the newest spelling present."""
    for rank, spelling in enumerate(_spellings(name)):
        if many := found.get(spelling + suffix):
            if rank and spelling in series.ALIASES.get(name, ()):
                problems.add(f"{faults.ALIAS}:{field}")
            return many
    return []


def _sum(found: _Found, field: str, name: str, problems: set[str]) -> float | None:
    """Sum over engines; unknown as soon as one part is not a count."""
    many = _under(found, field, name, problems)
    if not many:
        return None
    total = math.fsum(s.value for s in many) if all(math.isfinite(s.value) for s in many) else math.nan
    if not math.isfinite(total):
        problems.add(f"{faults.NOT_FINITE}:{field}")
        return None
    if any(s.value < 0 for s in many):
        problems.add(f"{faults.NEGATIVE}:{field}")
        return None
    return total


def _labelled_sum(found: _Found, name: str, label: str, value: str) -> float | None:
    parts = [s.value for s in found.get(name, ()) if s.labels.get(label) == value]
    if not parts or not all(math.isfinite(part) and part >= 0 for part in parts):
        return None
    return math.fsum(parts)


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, float) else None


def _histogram(found: _Found, field: str, name: str, problems: set[str]) -> Histogram | None:
    """Buckets added up over engines, in order of their bounds."""
    buckets: dict[float, float] = {}
    for s in _under(found, field, name, problems, "_bucket"):
        try:
            bound = float(s.labels.get("le", "nan"))
        except ValueError:
            bound = math.nan
        if math.isnan(bound) or not math.isfinite(s.value) or s.value < 0:
            problems.add(f"{faults.NOT_FINITE}:{field}")
            return None
        buckets[bound] = buckets.get(bound, 0.0) + s.value
    total = math.fsum(s.value for s in _under(found, field, name, problems, "_sum") if math.isfinite(s.value))
    if math.inf not in buckets:
        return None
    bounds = tuple(sorted(buckets))
    return Histogram(bounds, tuple(buckets[bound] for bound in bounds), total)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _capacities(found: _Found) -> dict[str, float]:
    """KV tokens per engine, as it says them: blocks x block size is wrong on hybrids, so only a fallback."""
    capacities: dict[str, float] = {}
    for s in found.get(series.CACHE_CONFIG_INFO, ()):
        blocks, size = _number(s.labels.get("num_gpu_blocks")), _number(s.labels.get("block_size"))
        tokens = _number(s.labels.get("kv_cache_size_tokens")) or (blocks * size if blocks and size else None)
        if tokens:
            capacities[s.labels.get("engine", "")] = tokens
    return capacities


def _block_size(found: _Found) -> int | None:
    sizes = [_number(s.labels.get("block_size")) for s in found.get(series.CACHE_CONFIG_INFO, ())]
    known = [size for size in sizes if size]
    return int(min(known)) if known else None


def _kv_usage(found: _Found, capacities: dict[str, float], problems: set[str]) -> float | None:
    """Usage weighted by capacity, 0-1. Blocks that are only cached do not count: 0 on a warm idle pod is right."""
    many = _under(found, "kv_usage", series.KV_CACHE_USAGE, problems)
    if not many:
        return None
    if not all(math.isfinite(s.value) for s in many):
        problems.add(f"{faults.NOT_FINITE}:kv_usage")
        return None
    if any(not 0 <= s.value <= 1 for s in many):
        problems.add(faults.KV_USAGE_OUT_OF_RANGE)
    weights = [capacities.get(s.labels.get("engine", ""), 0.0) for s in many]
    if not all(weights):
        weights = [1.0] * len(many)
    return math.fsum(min(1.0, max(0.0, s.value)) * w for s, w in zip(many, weights, strict=True)) / math.fsum(
        weights
    )


def _computed(found: _Found, values: dict[str, object]) -> float | None:
    """Prompt tokens really computed: said directly, else prompt minus cached."""
    direct = _labelled_sum(found, series.PROMPT_TOKENS_BY_SOURCE, "source", "local_compute")
    if direct is not None:
        return direct
    prompt, cached = values["prompt_tokens"], values["prompt_tokens_cached"]
    if isinstance(prompt, float) and isinstance(cached, float):
        return max(0.0, prompt - cached)
    return None


def _sampled_at(found: _Found, at: float, problems: set[str]) -> float:
    """The oldest stamp of the page where it carries stamps, else the time of the fetch."""
    stamps = [s.stamp for many in found.values() for s in many if s.stamp is not None]
    if not stamps:
        return at
    if max(stamps) > at + CLOCK_SKEW_SECONDS:
        problems.add(faults.FUTURE_TIME_STAMP)
        return at
    return min(at, *stamps)

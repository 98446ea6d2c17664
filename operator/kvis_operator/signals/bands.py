"""Healthy bands of the golden metrics, learned per service.

A hit rate depends on the workload and the prefill/decode ratio on prompt length, so fixed bands are wrong for most
services. A band is the median, over the last day's hours *of load*, of each hour's 5th and 95th percentile: idle time
teaches nothing, one odd hour moves it little. Until one hour of load was seen, a published hint stands in, marked so.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final, Self

from kvis_operator.signals.observation import Observation

HOUR_SECONDS: Final = 3600.0
HOURS: Final = 24
LOW, HIGH = 0.05, 0.95
_UNIT: Final = tuple(i / 50 for i in range(51))
_RATIO: Final = tuple(0.1 * 10 ** (i / 16) for i in range(65))  # 0.1 to 1000
GRIDS: Final[Mapping[str, tuple[float, ...]]] = {
    "hit_rate": _UNIT,
    "kv_usage": _UNIT,
    "prefill_decode_ratio": _RATIO,
}
HINTS: Final[Mapping[str, tuple[float, float]]] = {
    "hit_rate": (0.95, 1.0),
    "kv_usage": (0.0, 0.85),
    "prefill_decode_ratio": (1.5, 3.0),
}
"""Starting hints from articles; right for few workloads."""


@dataclass(frozen=True, slots=True)
class Band:
    low: float
    high: float
    hours: int  # hours of load behind it; 0: a hint


@dataclass(frozen=True, slots=True)
class _Learning:
    """One metric: the running hour as counts per grid cell, and finished hours as (low, high), newest last."""

    counts: tuple[tuple[int, float], ...] = ()  # (cell, seconds) where not zero, by cell
    hours: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Bands:
    """State of the learning; immutable, JSON-ready."""

    metrics: Mapping[str, _Learning] = field(default_factory=dict)

    def updated(self, obs: Observation, *, seconds: float) -> "Bands":
        """With `seconds` of this observation added to every metric that was seen under load."""
        if not obs.rate_60s:
            return self
        metrics = dict(self.metrics)
        for name, grid in GRIDS.items():
            value = getattr(obs, name)
            if value is not None and math.isfinite(value) and value >= 0:
                metrics[name] = _added(metrics.get(name, _Learning()), grid, value, seconds)
        return replace(self, metrics=metrics)

    def band(self, name: str) -> Band:
        """The healthy band of `hit_rate`, `kv_usage` or `prefill_decode_ratio`."""
        hours = self.metrics.get(name, _Learning()).hours
        if not hours:
            return Band(*HINTS[name], hours=0)
        return Band(median(low for low, _ in hours), median(high for _, high in hours), len(hours))

    def to_json(self) -> dict[str, Any]:
        return {
            name: {"counts": [list(c) for c in learning.counts], "hours": [list(h) for h in learning.hours]}
            for name, learning in self.metrics.items()
        }

    @classmethod
    def restore(cls, raw: Mapping[str, Any] | None) -> Self:
        """What `to_json` wrote; anything unreadable is forgotten."""
        try:
            return cls({name: _restored(raw[name]) for name in GRIDS if name in raw}) if raw else cls()
        except (TypeError, ValueError, KeyError):
            return cls()


def _added(learning: _Learning, grid: tuple[float, ...], value: float, seconds: float) -> _Learning:
    cell = min(len(grid) - 1, max(0, bisect_right(grid, value) - 1))
    counts = dict(learning.counts)
    counts[cell] = counts.get(cell, 0.0) + seconds
    ordered = tuple(sorted(counts.items()))
    if sum(counts.values()) < HOUR_SECONDS:
        return replace(learning, counts=ordered)
    finished = (_quantile(ordered, grid, LOW, upper=False), _quantile(ordered, grid, HIGH, upper=True))
    return _Learning((), (*learning.hours, finished)[-HOURS:])


def _quantile(
    counts: tuple[tuple[int, float], ...], grid: tuple[float, ...], q: float, *, upper: bool
) -> float:
    """Edge of the cell in which the quantile lies: the lower one for a low bound, the upper one for a high bound."""
    rank, seen = q * sum(seconds for _, seconds in counts), 0.0
    for cell, seconds in counts:
        seen += seconds
        if seen >= rank:
            return grid[min(len(grid) - 1, cell + 1)] if upper else grid[cell]
    return grid[-1]


def _restored(raw: Any) -> _Learning:
    counts = tuple((int(cell), float(seconds)) for cell, seconds in raw["counts"])
    hours = tuple((float(low), float(high)) for low, high in raw["hours"])
    if not all(math.isfinite(x) for pair in (*counts, *hours) for x in pair) or any(
        cell < 0 for cell, _ in counts
    ):
        raise ValueError("not a learned band")
    return _Learning(counts, hours)

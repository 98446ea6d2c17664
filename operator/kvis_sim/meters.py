"""What a replica counts about itself, in the shape of the runtime's own metrics, and bins for the final
report.

Nothing here grows with the number of requests.
"""

import math
from bisect import bisect_left
from functools import cache
from itertools import accumulate, pairwise
from math import exp, log

from kvis_operator.signals.sample import Histogram
from kvis_sim.result import Quantiles

# vLLM 0.32's bucket bounds, seconds.
TTFT_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_BOUNDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_BOUNDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
    *(40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


class BucketCounts:
    """A Prometheus histogram being filled."""

    __slots__ = ("_bounds", "_counts", "_exposed_bounds", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._exposed_bounds = (*bounds, math.inf)
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._total += value * times

    def exposed(self) -> Histogram:
        sums = tuple(map(float, accumulate(self._counts)))
        return Histogram(self._exposed_bounds, sums, self._total)


EDGES = tuple(1e-4 * exp(k / 50.0) for k in range(1000))  # bins 2 % wide, from 0.1 ms to 13 hours


@cache
def _bins_up_to(bounds: tuple[float, ...]) -> tuple[int, ...]:
    """For each bound the number of bins at or below it; the bound is rounded to the nearest edge."""
    return tuple(round(50.0 * log(bound / EDGES[0])) + 1 for bound in bounds)


class LogBins:
    """Counts by the logarithm of a duration: quantiles to 2 %, in constant memory."""

    __slots__ = ("_counts", "_total", "count")

    def __init__(self) -> None:
        self._counts = [0] * (len(EDGES) + 1)  # bin k ends at edge k, inclusive
        self._total = 0.0
        self.count = 0

    def add(self, other: "LogBins", sign: int = 1) -> None:
        """Adds (or with sign -1 takes away) the observations of `other`."""
        self._counts = [
            mine + sign * theirs for mine, theirs in zip(self._counts, other._counts, strict=True)
        ]
        self._total += sign * other._total
        self.count += sign * other.count

    def observe(self, seconds: float, times: int = 1) -> None:
        self._counts[bisect_left(EDGES, seconds)] += times
        self._total += seconds * times
        self.count += times

    def quantile(self, q: float) -> float | None:
        """Middle of the bin where the q-quantile lies; None when nothing was observed."""
        if not self.count:
            return None
        rank, seen = q * self.count, 0
        for position, count in enumerate(self._counts):
            seen += count
            if seen >= rank and count:
                return 0.5 * (EDGES[max(0, position - 1)] + EDGES[min(position, len(EDGES) - 1)])
        raise AssertionError("the counts of the bins sum to the count")

    def exposed(self, bounds: tuple[float, ...]) -> Histogram:
        """As a Prometheus histogram."""
        edges, bins = _bins_up_to(bounds), self._counts
        between = [sum(bins[low:high]) for low, high in pairwise((0, *edges, len(bins)))]
        return Histogram((*bounds, math.inf), tuple(map(float, accumulate(between))), self._total)

    def quantiles(self) -> Quantiles:
        return Quantiles(self.quantile(0.5), self.quantile(0.95), self.quantile(0.99))


class PodMeter:
    """Counters since the process started, tokens and seconds."""

    __slots__ = (
        "busy_seconds",
        "computed_prompt_tokens",
        "finished",
        "first_hits",
        "first_queries",
        "generated_tokens",
        "inter_token",
        "preempted_tokens",
        "preemptions",
        "prefill",
        "prefix_hits",
        "prefix_queries",
        "prompt_tokens",
        "steps",
        "tpot",
        "ttft",
    )

    def __init__(self) -> None:
        self.prefix_queries = 0
        self.prefix_hits = (
            0  # a recomputed sequence that finds its own blocks counts, as in vLLM before PR 25787
        )
        self.first_queries = 0  # the same two without recomputation
        self.first_hits = 0
        self.prompt_tokens = 0
        self.computed_prompt_tokens = 0
        self.generated_tokens = 0
        self.finished = 0
        self.preemptions = 0
        self.preempted_tokens = 0
        self.steps = 0
        self.busy_seconds = 0.0
        self.ttft = BucketCounts(TTFT_BOUNDS)
        self.tpot = BucketCounts(TOKEN_BOUNDS)
        self.inter_token = LogBins()
        self.prefill = BucketCounts(REQUEST_BOUNDS)

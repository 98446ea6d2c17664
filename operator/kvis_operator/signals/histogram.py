"""Cumulative histograms of several pods: added up, subtracted, and read as quantiles, by Prometheus' own rules."""

from collections.abc import Collection

from kvis_operator.signals.sample import Histogram


def merge(histograms: Collection[Histogram]) -> Histogram | None:
    """Buckets of several pods added up; bounds that not all of them have are left out."""
    if not histograms:
        return None
    first = next(iter(histograms))
    if all(h.bounds == first.bounds for h in histograms):
        counts = tuple(map(sum, zip(*(h.counts for h in histograms), strict=True)))
        return Histogram(first.bounds, counts, sum(h.total for h in histograms))
    common = sorted(set.intersection(*(set(h.bounds) for h in histograms)))
    tables = [dict(zip(h.bounds, h.counts, strict=True)) for h in histograms]
    return Histogram(
        tuple(common), tuple(sum(t[b] for t in tables) for b in common), sum(h.total for h in histograms)
    )


def at_least(histogram: Histogram, q: float) -> float | None:
    """Lower edge of the bucket that holds the quantile: what it is at least. None without observations.

    Buckets are wide where objectives lie (1 to 2.5 s), and interpolation in them overstates a falling tail.
    """
    observations = histogram.counts[-1] if histogram.counts else 0.0
    if observations <= 0:
        return None
    lower = 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        if count >= q * observations:
            break
        lower = bound
    return lower


def growth(first: Histogram | None, last: Histogram | None) -> Histogram | None:
    """What was observed between two states of a histogram; None when it was reset or its bounds changed."""
    if first is None or last is None or first.bounds != last.bounds:
        return None
    counts = tuple(b - a for a, b in zip(first.counts, last.counts, strict=True))
    if any(count < 0 for count in counts):
        return None
    return Histogram(last.bounds, counts, last.total - first.total)


def quantile(histogram: Histogram, q: float) -> float | None:
    """Prometheus' own rule: linear inside a bucket, the highest finite bound in the last. None without observations."""
    observations = histogram.counts[-1] if histogram.counts else 0.0
    if observations <= 0:
        return None
    rank, below, lower = q * observations, 0.0, 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        if count >= rank:
            if bound == float("inf"):
                return lower
            inside = count - below
            return lower + (bound - lower) * ((rank - below) / inside if inside > 0 else 1.0)
        below, lower = count, bound
    return lower

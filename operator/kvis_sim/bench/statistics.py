"""Paired comparisons over seeds: bootstrap intervals and Holm's correction.

Two methods under one seed meet the same arrivals, start times and noise, so the difference per seed is
what is resampled. Random draws come from a seed passed in: the same rows give the same interval.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

SAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Paired:
    """Mean difference, its 95 % bootstrap interval and a two-sided bootstrap p-value."""

    mean: float
    low: float
    high: float
    p_value: float
    pairs: int


def paired_bootstrap(differences: Sequence[float], *, seed: int, samples: int = SAMPLES) -> Paired | None:
    """None without a pair. One pair gives an interval of zero width and p = 1: nothing can be said."""
    if not differences:
        return None
    count = len(differences)
    rng = random.Random(seed)
    means = sorted(fmean(rng.choices(differences, k=count)) for _ in range(samples))
    below = sum(mean <= 0.0 for mean in means)
    above = sum(mean >= 0.0 for mean in means)
    p_value = 1.0 if count == 1 else min(1.0, 2.0 * (min(below, above) + 1) / (samples + 1))
    return Paired(
        mean=fmean(differences),
        low=means[round(0.025 * (samples - 1))],
        high=means[round(0.975 * (samples - 1))],
        p_value=p_value,
        pairs=count,
    )


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values: the k-th smallest of m times (m - k + 1), made monotone and capped at 1."""
    adjusted: dict[str, float] = {}
    highest = 0.0
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for rank, name in enumerate(ordered):
        highest = max(highest, min(1.0, p_values[name] * (len(ordered) - rank)))
        adjusted[name] = highest
    return adjusted


def hypervolume(points: Sequence[tuple[float, float]], *, worst_cost: float) -> float:
    """Area under the staircase of (cost, attainment) points up to `worst_cost`: more is better."""
    area, best, last = 0.0, 0.0, 0.0
    for cost, attainment in sorted(point for point in points if point[0] <= worst_cost):
        area += best * (cost - last)
        best, last = max(best, attainment), cost
    return area + best * (worst_cost - last)

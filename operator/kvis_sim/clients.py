"""Arrivals of many recorded clients, each with its own rate and burstiness (ServeGen's clients).

A client's gaps between requests follow its window's Gamma or Weibull law, so the merged stream has the burstiness
of real traffic, which a Poisson process at the same rate has not.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby
from math import gamma
from operator import attrgetter

from kvis_sim.trace_formats import ClientWindow
from kvis_sim.workload import Request

WINDOW_SECONDS = 600.0
Lengths = Callable[[random.Random], tuple[int, int]]
"""Draws prompt and output tokens of one request."""


def client_arrivals(
    windows: Iterable[ClientWindow], lengths: Lengths, rng: random.Random, *, start: float, end: float
) -> Iterator[Request]:
    """Requests of all clients from `start` to `end` seconds of the recording, `start` becoming 0."""
    inside = [w for w in windows if start <= w.at < end and w.rate > 0.0]
    inside.sort(key=attrgetter("client", "at"))
    streams = [
        _arrivals(list(group), random.Random(rng.random()))
        for _, group in groupby(inside, key=attrgetter("client"))
    ]
    for at in merge(*streams):
        yield Request(at - start, *lengths(rng))


def _arrivals(windows: list[ClientWindow], rng: random.Random) -> Iterator[float]:
    """A renewal process that starts anew, somewhere within a gap, in each window."""
    for window in windows:
        at = window.at - rng.random() * _gap(window, rng)
        while (at := at + _gap(window, rng)) < window.at + WINDOW_SECONDS:
            if at >= window.at:
                yield at


def _gap(window: ClientWindow, rng: random.Random) -> float:
    """Seconds to the next request: the law's shape, its scale set so that the mean gap is 1 / rate."""
    if window.distribution == "Gamma":
        return rng.gammavariate(window.shape, 1.0 / (window.rate * window.shape))
    return rng.weibullvariate(1.0, window.shape) / (window.rate * _weibull_mean(window.shape))


def _weibull_mean(shape: float) -> float:
    return gamma(1.0 + 1.0 / shape)

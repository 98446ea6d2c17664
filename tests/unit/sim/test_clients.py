"""Arrivals of recorded clients: their rate and their burstiness."""

import random
from itertools import pairwise
from statistics import fmean, stdev

import pytest

from kvis_sim.clients import client_arrivals
from kvis_sim.trace_formats import ClientWindow


def a_window(client="a", at=0.0, rate=20.0, distribution="Gamma", shape=1.0):
    return ClientWindow(client, at, rate, distribution, shape, scale=1.0)


def arrivals(*windows, start=0.0, end=600.0):
    stream = client_arrivals(windows, lambda rng: (10, 10), random.Random(1), start=start, end=end)
    return [request.at for request in stream]


@pytest.mark.parametrize(("distribution", "shape"), [("Gamma", 0.5), ("Gamma", 2.0), ("Weibull", 0.7)])
def test_a_client_keeps_its_rate_whatever_its_law(distribution, shape):
    times = arrivals(a_window(distribution=distribution, shape=shape))
    assert len(times) == pytest.approx(12_000, rel=0.05)


@pytest.mark.parametrize(("shape", "variation"), [(1.0, 1.0), (0.25, 2.0)])
def test_gamma_gaps_have_the_recorded_burstiness(shape, variation):
    gaps = [b - a for a, b in pairwise(arrivals(a_window(shape=shape)))]
    assert stdev(gaps) / fmean(gaps) == pytest.approx(variation, rel=0.1)


def test_clients_merge_in_order_of_time():
    times = arrivals(a_window("a"), a_window("b"), a_window("a", at=600.0), end=1200.0)
    assert times == sorted(times)
    assert len(times) == pytest.approx(36_000, rel=0.05)


def test_only_the_wanted_part_of_the_recording_is_played_from_zero():
    times = arrivals(a_window(at=0.0), a_window(at=600.0, rate=5.0), start=600.0, end=1200.0)
    assert 0.0 <= times[0] < 5.0
    assert len(times) == pytest.approx(3000, rel=0.1)

"""A load that stands still but for its noise is no reason to change anything."""

import random
from collections import deque

import pytest

from kvis_operator.scaling.spread import MINUTE
from observations import KV, TICK, Loop, a_spec, pods

DAY = 86_400.0
TICKS_A_MINUTE = int(MINUTE / TICK)


def noisy_day(loop: Loop, *, rate: float, seed: int) -> Loop:
    """A day of a new service: normal counts about a rate that is drawn anew every minute, up to a fifth off `rate`."""
    rng = random.Random(seed)
    counts: deque[float] = deque([rate * TICK] * TICKS_A_MINUTE, maxlen=TICKS_A_MINUTE)
    expected = 0.0
    for i in range(int(DAY / TICK)):
        if i % TICKS_A_MINUTE == 0:
            expected = rate * TICK * rng.uniform(0.8, 1.2)
        counts.append(max(0.0, rng.gauss(expected, expected**0.5)))
        served = pods(loop.ready, kv_usage=0.05, age_seconds=90.0 + i * TICK)
        loop.tick(
            rate=sum(counts) / MINUTE,
            rate_15s=counts[-1] / TICK,
            kv_tokens=0.05 * KV * loop.ready,
            pods=served,
        )
    return loop


@pytest.mark.parametrize("seed", range(3))
def test_a_day_of_it_moves_no_replica(seed):
    day = noisy_day(Loop(a_spec(), 8), rate=21.0, seed=seed)
    assert [(move.current, move.replicas) for move in day.moves] == []


def test_what_is_too_much_by_more_than_noise_goes():
    loop = noisy_day(Loop(a_spec(), 8), rate=10.0, seed=0)
    assert loop.replicas < 6
    assert all(move.replicas < move.current for move in loop.moves)

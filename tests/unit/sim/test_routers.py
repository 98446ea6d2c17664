"""Who gets a request."""

import random
from dataclasses import dataclass

from kvis_sim.paged_kv import PrefixIndex
from kvis_sim.router import ConsistentHash, LeastLoaded, PrefixAware, RoundRobin
from kvis_sim.workload import Request


@dataclass
class Load:
    in_flight: int = 0
    queued_tokens: int = 0


@dataclass
class Pod:
    ordinal: int
    replica: Load

    @property
    def slot(self):
        return self.ordinal


def pods(*in_flight):
    return [Pod(k, Load(load)) for k, load in enumerate(in_flight)]


def a_request(*blocks):
    return Request(0.0, 64, 10, blocks)


def test_round_robin_goes_round():
    router = RoundRobin()
    router.changed(pods(0, 0, 0))
    turns = [router.choose(a_request()) for _ in range(6)]
    assert turns == [1, 2, 0, 1, 2, 0]


def test_least_loaded_takes_the_emptiest():
    router = LeastLoaded()
    router.changed(pods(3, 1, 2))
    assert router.choose(a_request()) == 1


def test_least_loaded_spreads_over_ties():
    router = LeastLoaded()
    router.changed(pods(0, 0, 0))
    assert {router.choose(a_request()) for _ in range(3)} == {0, 1, 2}


def hashed(fleet):
    router = ConsistentHash(random.Random(0))
    router.changed(fleet)
    return router


def test_the_same_prefix_goes_to_the_same_pod():
    router = hashed(pods(5, 5, 5, 5))
    assert len({router.choose(a_request(7, 8, tail)) for tail in range(20)}) == 1


def test_different_prefixes_spread():
    router = hashed(pods(5, 5, 5, 5))
    assert {router.choose(a_request(k)) for k in range(100)} == {0, 1, 2, 3}


def test_a_pod_above_the_bound_passes_requests_on():
    fleet = pods(4, 4, 4, 4)
    router = hashed(fleet)
    home = router.choose(a_request(1))
    fleet[home].replica.in_flight = 7
    assert router.choose(a_request(1)) != home


def test_a_new_pod_takes_only_its_share_of_prefixes():
    before, after = hashed(pods(5, 5, 5, 5)), hashed(pods(5, 5, 5, 5, 5))
    moved = sum(before.choose(a_request(k)) != after.choose(a_request(k)) for k in range(1000))
    assert 100 < moved < 300


def prefix_aware(fleet, holders):
    index = PrefixIndex()
    index.holders = holders
    router = PrefixAware(index, 16)
    router.changed(fleet)
    return router


def test_the_longest_cached_prefix_wins_among_equals():
    router = prefix_aware(pods(0, 0, 0), {1: 0b110, 2: 0b100})
    assert router.choose(a_request(1, 2, 3)) == 2


def test_a_backlog_outweighs_a_cached_prefix():
    fleet = pods(0, 0)
    fleet[0].replica.queued_tokens = 1000
    assert prefix_aware(fleet, {1: 0b01}).choose(a_request(1)) == 1


def test_a_block_behind_a_gap_is_no_prefix():
    router = prefix_aware(pods(0, 0), {1: 0b01, 2: 0b11})
    assert router.choose(a_request(1, 2)) == 0

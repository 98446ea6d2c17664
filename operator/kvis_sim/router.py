"""Which pod gets a request. Four policies, from knowing nothing to knowing every block.

A router sees the pods that take new requests, in order of age. `precise` index and queue lengths are exact
here; real ones lag by a scrape or an event.
"""

import math
import random
from bisect import bisect_right, insort
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from kvis_sim.engine import Replica
from kvis_sim.paged_kv import PrefixIndex
from kvis_sim.workload import Request

LOAD_FACTOR = 1.25  # consistent hashing with bounded loads: no pod above this multiple of the mean
RING_POINTS = 100  # virtual nodes a pod has on the hash ring
PREFIX_KEY_BLOCKS = 2  # leading blocks that make the hash key
RUNNING_TOKENS = 64  # a sequence in flight weighs as much as this many prompt tokens in the backlog
MIX = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads consecutive numbers over the ring
RING = 1 << 64

_in_flight = attrgetter("in_flight")


class Target(Protocol):
    """A pod as a router sees it. `slot` is its bit in the prefix index; `ordinal` counts pods ever
    created.
    """

    @property
    def replica(self) -> Replica: ...
    @property
    def slot(self) -> int: ...
    @property
    def ordinal(self) -> int: ...


class Router(Protocol):
    def changed(self, pods: Sequence[Target]) -> None:
        """The pods that take new requests from now on."""
        ...

    def choose(self, request: Request) -> int:
        """Position in the last `changed` list."""
        ...


class RoundRobin:
    def __init__(self) -> None:
        self._count = 0
        self._next = 0

    def changed(self, pods: Sequence[Target]) -> None:
        self._count = len(pods)

    def choose(self, request: Request) -> int:
        self._next = (self._next + 1) % self._count
        return self._next


class LeastLoaded:
    """Fewest requests in flight; ties go round, so that an idle fleet shares the load."""

    def __init__(self) -> None:
        self._replicas: list[Replica] = []
        self._turn = 0

    def changed(self, pods: Sequence[Target]) -> None:
        self._replicas = [pod.replica for pod in pods]

    def choose(self, request: Request) -> int:
        loads = list(map(_in_flight, self._replicas))
        least = min(loads)
        self._turn += 1
        start = self._turn % len(loads)
        try:
            return loads.index(least, start)
        except ValueError:
            return loads.index(least)


class ConsistentHash:
    """A ring of virtual nodes; the key is the first blocks; an overloaded pod passes the request on."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._replicas: list[Replica] = []
        self._ring: list[tuple[int, int]] = []

    def changed(self, pods: Sequence[Target]) -> None:
        self._replicas = [pod.replica for pod in pods]
        self._ring = []
        for position, pod in enumerate(pods):
            points = random.Random(pod.ordinal)
            for _ in range(RING_POINTS):
                insort(self._ring, (points.getrandbits(64), position))

    def choose(self, request: Request) -> int:
        loads = list(map(_in_flight, self._replicas))
        bound = math.ceil(LOAD_FACTOR * (sum(loads) + 1) / len(loads))
        ring = self._ring
        start = bisect_right(ring, (self._key(request), len(loads)))
        for step in range(len(ring)):
            position = ring[(start + step) % len(ring)][1]
            if loads[position] + 1 <= bound:
                return position
        return loads.index(min(loads))

    def _key(self, request: Request) -> int:
        if not request.blocks:
            return self._rng.getrandbits(64)
        key = 0
        for block in request.blocks[:PREFIX_KEY_BLOCKS]:
            key = ((key ^ (block + 1)) * MIX) % RING
            key ^= key >> 29
        return key * MIX % RING


class PrefixAware:
    """Lowest backlog plus uncached prompt tokens, the cached prefix of every pod being known exactly."""

    def __init__(self, index: PrefixIndex, block_size: int) -> None:
        self._index = index
        self._block_size = block_size
        self._pods: list[tuple[int, Replica]] = []
        self._all = 0
        self._turn = 0

    def changed(self, pods: Sequence[Target]) -> None:
        self._pods = [(1 << pod.slot, pod.replica) for pod in pods]
        self._all = sum(bit for bit, _ in self._pods)

    def choose(self, request: Request) -> int:
        cached = self._cached(request.blocks)
        best, best_cost = 0, float("inf")
        count = len(self._pods)
        self._turn += 1
        for step in range(count):
            position = (self._turn + step) % count
            bit, replica = self._pods[position]
            cost = replica.queued_tokens + RUNNING_TOKENS * replica.in_flight - cached.get(bit, 0)
            if cost < best_cost:
                best, best_cost = position, cost
        return best

    def _cached(self, blocks: tuple[int, ...]) -> dict[int, int]:
        """Cached prompt tokens by pod bit."""
        holders, left = self._index.holders, self._all
        cached: dict[int, int] = {}
        for count, block in enumerate(blocks):
            here = holders.get(block, 0) & left
            gone = left ^ here
            while gone and count:
                bit = gone & -gone
                cached[bit] = count * self._block_size
                gone ^= bit
            left = here
            if not left:
                return cached
        while left:
            bit = left & -left
            cached[bit] = len(blocks) * self._block_size
            left ^= bit
        return cached

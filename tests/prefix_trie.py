"""Replays a trace's prompts, one after the other, through prefix trees with least-recently-used leaves
evicted.

The yardstick for the simulator's hit rates: a tree of nodes with time stamps instead of counted blocks in
a list.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvis_sim.workload import Request


@dataclass(eq=False)
class Node:
    parent: "Node | None" = None
    block: int = -1
    used: int = 0
    children: dict[int, "Node"] = field(default_factory=dict)


class PrefixTrie:
    def __init__(self, block_size: int, capacity: int | None = None) -> None:
        self.block_size = block_size
        self.capacity = capacity  # blocks
        self.root = Node()
        self.size = 0
        self.clock = 0
        self.leaves: list[tuple[int, int, Node]] = []

    def serve(self, request: Request) -> int:
        """Tokens of the prompt that were cached; afterwards all its full blocks are."""
        self.clock += 1
        node, hits, missed = self.root, 0, False
        for block in request.blocks:
            child = node.children.get(block)
            if child is None:
                missed = True
                child = node.children[block] = Node(node, block)
                self.size += 1
            hits += not missed
            child.used = self.clock
            node = child
        heapq.heappush(self.leaves, (self.clock, id(node), node))
        # A partly filled last block occupies a block while the request runs.
        partial = request.prompt > len(request.blocks) * self.block_size
        self.evict(partial)
        return min(hits * self.block_size, (request.prompt - 1) // self.block_size * self.block_size)

    def evict(self, reserved: int) -> None:
        while self.capacity is not None and self.size > self.capacity - reserved:
            used, _, node = heapq.heappop(self.leaves)
            if node.children or node.used != used or node.parent is None:
                continue
            del node.parent.children[node.block]
            self.size -= 1
            if node.parent.parent is not None and not node.parent.children:
                heapq.heappush(self.leaves, (node.parent.used, id(node.parent), node.parent))
            node.parent = None


def hit_rate(requests: Iterable[Request], *, block_size: int, capacity: int | None, replicas: int) -> float:
    """Token hit rate when requests go to `replicas` separate caches in turn."""
    tries = [PrefixTrie(block_size, capacity) for _ in range(replicas)]
    hits = tokens = 0
    for turn, request in enumerate(requests):
        hits += tries[turn % replicas].serve(request)
        tokens += request.prompt
    return hits / tokens

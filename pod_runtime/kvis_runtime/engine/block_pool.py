"""Owns the ids of KV blocks: who references them, which hold a reusable prefix, which are free.

Knows no tensors, no requests and no tokens. Every block is in exactly one state, so
`free + cached + referenced == total` always holds:

    free --allocate--> referenced --release--> cached (if published) or free
    cached --acquire--> referenced            cached --allocate, least recently used first--> referenced
"""

from collections import OrderedDict
from collections.abc import Iterable


class BlockPool:
    """Fixed number of block ids from 0. Not thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._references = [0] * total
        # A stack: the block freed last is the one most likely still in the CPU's cache.
        self._free = list(range(total - 1, -1, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        """Blocks that hold nothing of use."""
        return len(self._free)

    @property
    def cached(self) -> int:
        """Blocks that nobody references but whose content can be found by hash."""
        return len(self._cached)

    @property
    def referenced(self) -> int:
        """Blocks in use by at least one sequence."""
        return self.total - self.free - self.cached

    @property
    def available(self) -> int:
        """Blocks that `allocate` can hand out now."""
        return self.free + self.cached

    def references(self, block: int) -> int:
        """How many holders the block has."""
        return self._references[block]

    def lookup(self, block_hash: bytes) -> int | None:
        """The block whose content has this hash, without taking it."""
        return self._block_of.get(block_hash)

    def allocate(self, count: int) -> list[int] | None:
        """`count` blocks, one reference each, or None when there are not so many: nothing is taken then."""
        if count > self.available:
            return None
        blocks = [self._take_one() for _ in range(count)]
        for block in blocks:
            self._references[block] = 1
        return blocks

    def _take_one(self) -> int:
        if self._free:
            return self._free.pop()
        block, _ = self._cached.popitem(last=False)
        del self._block_of[self._hash_of.pop(block)]
        return block

    def acquire(self, block: int) -> None:
        """One more reference to a block found by `lookup`."""
        if self._references[block] == 0:
            del self._cached[block]
        self._references[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference each, in the order given.

        Callers pass a sequence's blocks last to first: of a prefix, the tail is then evicted before the head,
        without which the tail could not be found anyway.
        """
        for block in blocks:
            assert self._references[block] > 0, f"block {block} released without a reference"
            self._references[block] -= 1
            if self._references[block] == 0:
                if block in self._hash_of:
                    self._cached[block] = None
                else:
                    self._free.append(block)

    def publish(self, block: int, block_hash: bytes) -> None:
        """Make a referenced, full block findable. The first block of equal content keeps the hash."""
        assert self._references[block] > 0, f"block {block} published without a reference"
        if block_hash not in self._block_of and block not in self._hash_of:
            self._block_of[block_hash] = block
            self._hash_of[block] = block_hash

    def forget_cached(self) -> None:
        """Empty the prefix cache: cached blocks become free, referenced ones can no longer be found."""
        self._free.extend(self._cached)
        self._cached.clear()
        self._hash_of.clear()
        self._block_of.clear()

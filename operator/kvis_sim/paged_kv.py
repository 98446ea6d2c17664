"""KV blocks of one simulated replica: paged, prefix-cached, evicted least recently used first.

Blocks are of two kinds. Prompt blocks with a known id are shared by everyone with that prefix, counted by
references, and stay as cache when nobody references them. Anonymous blocks (unknown prompts, partial blocks,
generated tokens) belong to one sequence and are free when it ends.

A decoding sequence grows by one token a step. Its length minus the step number never changes, so the
blocks of all decoding sequences at any step follow from two sums and a count per remainder, without
touching a sequence.

Invariant: blocks in use <= total at every step that `growth_fits` allowed; in use + idle <= total after
`settle`.
"""

from collections import OrderedDict
from collections.abc import Iterable


class PrefixIndex:
    """Which replicas hold which block: bit k of `holders[id]` stands for replica slot k."""

    __slots__ = ("holders",)

    def __init__(self) -> None:
        self.holders: dict[int, int] = {}

    def add(self, block: int, bit: int) -> None:
        self.holders[block] = self.holders.get(block, 0) | bit

    def remove(self, block: int, bit: int) -> None:
        left = self.holders.get(block, 0) & ~bit
        if left:
            self.holders[block] = left
        else:
            self.holders.pop(block, None)

    def drop(self, blocks: Iterable[int], bit: int) -> None:
        for block in blocks:
            self.remove(block, bit)


class PagedKV:
    """Block accounting of one replica. Knows ids and counts; neither requests nor time."""

    __slots__ = (
        "_bit",
        "_fixed",
        "_growing",
        "_idle",
        "_index",
        "_offset_sum",
        "_quotients",
        "_references",
        "_remainders",
        "block_size",
        "shares",
        "total_blocks",
    )

    def __init__(
        self, total_blocks: int, block_size: int, index: PrefixIndex | None = None, slot: int = 0
    ) -> None:
        self.total_blocks = total_blocks
        self.block_size = block_size
        self.shares = False  # whether any block was ever known; until then there is nothing to evict
        self._references: dict[int, int] = {}  # known block -> sequences that use it
        self._idle: OrderedDict[int, None] = OrderedDict()  # known blocks that nobody uses, oldest first
        self._fixed = 0  # anonymous blocks of sequences whose prompt is being computed
        self._growing = 0  # decoding sequences
        self._offset_sum = 0  # sum of (length - step) over them
        self._quotients = 0  # sum of floor(offset / block_size), less the known blocks they use
        self._remainders = [0] * block_size  # sequences by offset mod block_size
        self._index = index
        self._bit = 1 << slot

    # Known blocks

    def cached_prefix(self, blocks: tuple[int, ...]) -> int:
        """How many leading blocks are here, in use or idle."""
        references = self._references
        count = 0
        for block in blocks:
            if block not in references:
                return count
            count += 1
        return count

    @property
    def idle_blocks(self) -> int:
        """Cached blocks that nobody uses: evictable."""
        return len(self._idle)

    @property
    def known_in_use(self) -> int:
        return len(self._references) - len(self._idle)

    def _pin(self, blocks: tuple[int, ...]) -> None:
        self.shares = True
        references, idle, index = self._references, self._idle, self._index
        for block in blocks:
            count = references.get(block)
            if count is None:
                references[block] = 1
                if index is not None:
                    index.add(block, self._bit)
            elif count:
                references[block] = count + 1
            else:
                references[block] = 1
                del idle[block]

    def _unpin(self, blocks: tuple[int, ...]) -> None:
        # The tail goes first, so that a prefix never loses its beginning before its end.
        references, idle = self._references, self._idle
        for block in reversed(blocks):
            count = references[block] - 1
            references[block] = count
            if not count:
                idle[block] = None

    def _evict_surplus(self, anonymous: int) -> None:
        surplus = anonymous + len(self._references) - self.total_blocks
        references, idle, index = self._references, self._idle, self._index
        while surplus > 0:
            block, _ = idle.popitem(last=False)
            del references[block]
            if index is not None:
                index.remove(block, self._bit)
            surplus -= 1

    def forget(self) -> None:
        """Takes this replica out of the index: it is gone."""
        if self._index is not None:
            self._index.drop(self._references, self._bit)

    # Anonymous blocks

    def tokens(self, step: int) -> int:
        """KV tokens of all decoding sequences at `step`."""
        return self._offset_sum + self._growing * step

    def anonymous(self, step: int) -> int:
        """Exact number of anonymous blocks at `step`: the sum of ceil(length / block_size) less known
        blocks.
        """
        if not self._growing:
            return self._fixed
        whole, part = divmod(step, self.block_size)
        blocks = self._quotients + self._growing * (whole + 1)
        if part:
            blocks += sum(self._remainders[self.block_size - part + 1 :])
        else:
            blocks -= self._remainders[0]
        return self._fixed + blocks

    def in_use(self, step: int) -> int:
        """Blocks referenced by live sequences at `step`."""
        return self.anonymous(step) + self.known_in_use

    # Life of a sequence

    def admit(self, length: int, blocks: tuple[int, ...], step: int) -> bool:
        """Takes all blocks of a prompt of `length` tokens, shared ones once; False: there is no room."""
        size = self.block_size
        needed = -(-length // size)
        if not self.shares and not blocks:
            most = (self._offset_sum + self._growing * (step + size)) // size + self._fixed
            if most + needed <= self.total_blocks:
                self._fixed += needed
                return True
        anonymous = self.anonymous(step)
        room = self.total_blocks - anonymous - len(self._references) + len(self._idle)
        if needed > room and needed - self._in_use_of(blocks) > room:
            return False
        self._fixed += needed - len(blocks)
        if blocks:
            self._pin(blocks)
        if self._idle:
            self._evict_surplus(anonymous + needed - len(blocks))
        return True

    def _in_use_of(self, blocks: tuple[int, ...]) -> int:
        references = self._references
        return sum(1 for block in blocks if references.get(block))

    def start_growing(self, length: int, known: int, step: int) -> None:
        """The prompt is computed: from now on the sequence grows by a token a step."""
        size = self.block_size
        self._fixed -= -(-length // size) - known
        offset = length - step
        self._offset_sum += offset
        self._quotients += offset // size - known
        self._remainders[offset % size] += 1
        self._growing += 1

    def end_growing(self, length: int, blocks: tuple[int, ...], step: int) -> None:
        """A decoding sequence of now `length` tokens ends or is preempted."""
        size = self.block_size
        offset = length - step
        self._offset_sum -= offset
        self._quotients -= offset // size - len(blocks)
        self._remainders[offset % size] -= 1
        self._growing -= 1
        if blocks:
            self._unpin(blocks)

    def end_prefill(self, length: int, blocks: tuple[int, ...]) -> None:
        """A sequence ends or is preempted before its prompt was computed."""
        self._fixed -= -(-length // self.block_size) - len(blocks)
        if blocks:
            self._unpin(blocks)

    def growth_fits(self, step: int, steps: int) -> int:
        """How many of the next `steps` decode steps find room, at the expense of idle cached blocks if
        need be.
        """
        limit = self.total_blocks - len(self._references) + len(self._idle)
        growing, size = self._growing, self.block_size
        most = (self._offset_sum + growing * (step + steps + size)) // size + self._fixed
        if most <= limit or self.anonymous(step + steps) <= limit:
            return steps
        return self._last_fitting(step, steps, limit)

    def settle(self, step: int) -> None:
        """Evicts what decoding up to `step` has displaced."""
        if self._idle:
            self._evict_surplus(self.anonymous(step))

    def _last_fitting(self, step: int, steps: int, limit: int) -> int:
        low, high = 0, steps  # `low` fits (the present does), `high` does not
        while high - low > 1:
            middle = (low + high) // 2
            if self.anonymous(step + middle) <= limit:
                low = middle
            else:
                high = middle
        return low

"""The block pool and its prefix cache against a model that keeps everything in plain dictionaries."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvis_runtime.engine.block_pool import BlockPool


class NaivePool:
    """What the pool must do, said without any care for speed."""

    def __init__(self, total):
        self.references = dict.fromkeys(range(total), 0)
        self.content = {}  # block -> hash
        self.idle_since = {}  # cached block -> when its last reference went
        self.clock = 0

    def unused(self):
        return {block for block, count in self.references.items() if count == 0}

    def cached(self):
        return {block for block in self.unused() if block in self.content}

    def evictable_first(self):
        return sorted(self.cached(), key=self.idle_since.__getitem__)

    def release(self, block):
        self.clock += 1
        self.references[block] -= 1
        self.idle_since[block] = self.clock


class PoolAgainstModel(RuleBasedStateMachine):
    @initialize(total=st.integers(1, 12))
    def start(self, total):
        self.pool = BlockPool(total)
        self.naive = NaivePool(total)
        self.held = []  # one entry per reference

    @rule(count=st.integers(0, 14))
    def allocate(self, count):
        unused, cached = self.naive.unused(), self.naive.evictable_first()
        blocks = self.pool.allocate(count)
        if count > len(unused):
            assert blocks is None
            return
        assert len(set(blocks)) == count
        evicted = [block for block in blocks if block in self.naive.content]
        assert evicted == cached[: max(0, count - (len(unused) - len(cached)))]
        for block in blocks:
            assert block in unused
            self.naive.content.pop(block, None)
            self.naive.references[block] = 1
            self.held.append(block)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data):
        block = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.pool.release([block])
        self.naive.release(block)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), content=st.integers(0, 9))
    def publish(self, data, content):
        block = data.draw(st.sampled_from(self.held))
        block_hash = bytes([content])
        self.pool.publish(block, block_hash)
        if block not in self.naive.content and block_hash not in self.naive.content.values():
            self.naive.content[block] = block_hash

    @rule(content=st.integers(0, 9))
    def acquire_what_is_found(self, content):
        block_hash = bytes([content])
        holders = [block for block, held in self.naive.content.items() if held == block_hash]
        block = self.pool.lookup(block_hash)
        assert ([block] if block is not None else []) == holders
        if block is not None:
            self.pool.acquire(block)
            self.naive.references[block] += 1
            self.held.append(block)

    @rule()
    def forget_cached(self):
        self.pool.forget_cached()
        self.naive.content.clear()

    @invariant()
    def every_block_is_in_one_state(self):
        if not hasattr(self, "pool"):
            return
        pool, naive = self.pool, self.naive
        assert pool.free + pool.cached + pool.referenced == pool.total
        assert pool.cached == len(naive.cached())
        assert pool.available == len(naive.unused())
        assert all(pool.references(block) == count for block, count in naive.references.items())


PoolAgainstModel.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestPoolAgainstModel = PoolAgainstModel.TestCase


def test_a_refused_allocation_takes_nothing():
    pool = BlockPool(2)
    assert pool.allocate(3) is None
    assert pool.free == 2


def test_of_a_released_sequence_the_tail_is_evicted_before_the_head():
    pool = BlockPool(2)
    head, tail = pool.allocate(2)
    pool.publish(head, b"head")
    pool.publish(tail, b"tail")
    pool.release([tail, head])
    assert pool.allocate(1) == [tail]
    assert pool.lookup(b"head") == head


def test_a_shared_block_counts_once():
    pool = BlockPool(3)
    (block,) = pool.allocate(1)
    pool.acquire(block)
    assert pool.referenced == 1


def test_the_block_freed_last_is_reused_first():
    pool = BlockPool(3)
    first, second, _ = pool.allocate(3)
    pool.release([second])
    pool.release([first])
    assert pool.allocate(1) == [first]

"""Finds the longest prefix of a prompt whose KV is already in the pool, block by block.

A block's hash covers its tokens and the hash of the block before it, so equal hashes mean equal prefixes.
The salt enters the first block: tenants with different salts never share. Only full blocks are hashed,
and at least one token is always left to compute, for its logits are what the next token is sampled from.
"""

from array import array
from hashlib import sha256

from kvis_runtime.engine.block_pool import BlockPool
from kvis_runtime.engine.request import Sequence


def block_hash(parent: bytes, tokens: list[int]) -> bytes:
    """SHA-256 over the parent's hash and the tokens as 32-bit integers; collisions are out of reach."""
    return sha256(parent + array("I", tokens).tobytes()).digest()


def root_hash(salt: str) -> bytes:
    """The parent of a first block."""
    return sha256(b"kvis prefix " + salt.encode()).digest()


class PrefixCache:
    """Matches and publishes the blocks of sequences; the pool evicts. `enabled=False` finds nothing."""

    def __init__(self, pool: BlockPool, block_size: int, *, enabled: bool) -> None:
        self._pool = pool
        self._block_size = block_size
        self._enabled = enabled

    def match(self, sequence: Sequence) -> list[int]:
        """The cached leading blocks of the sequence's tokens, without taking them."""
        blocks: list[int] = []
        if not self._enabled:
            return blocks
        for index in range((len(sequence.tokens) - 1) // self._block_size):
            block = self._pool.lookup(self._hash(sequence, index))
            if block is None:
                break
            blocks.append(block)
        return blocks

    def publish(self, sequence: Sequence, computed: int) -> None:
        """Offer the sequence's blocks that `computed` tokens fill; blocks offered before are skipped."""
        if not self._enabled:
            return
        full = computed // self._block_size
        for index in range(sequence.published, full):
            self._pool.publish(sequence.blocks[index], self._hash(sequence, index))
        sequence.published = max(sequence.published, full)

    def _hash(self, sequence: Sequence, index: int) -> bytes:
        hashes = sequence.hashes
        while len(hashes) <= index:
            start = len(hashes) * self._block_size
            parent = hashes[-1] if hashes else root_hash(sequence.request.cache_salt)
            hashes.append(block_hash(parent, sequence.tokens[start : start + self._block_size]))
        return hashes[index]

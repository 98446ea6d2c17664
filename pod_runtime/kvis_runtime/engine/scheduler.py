"""Decides what the next step computes: continuous batching with chunked prefill over a paged cache.

Knows sequences and block ids, never tensors or time sources; `now` comes in. Rules, in this order:

1. Running sequences decode first, oldest first. When a decode needs a block and none is left, the newest
   running sequence is preempted: its blocks go back, and it will be recomputed, from the prefix cache where
   possible.
2. Prompts that are partly computed go on, oldest first, as far as the token budget reaches.
3. Waiting sequences are admitted in order of arrival while the cap, the budget and the blocks for their whole
   prompt allow, unless this step preempted: memory is short then.

The oldest sequence is never preempted for another one and always fits alone, so everything finishes.
"""

from collections import deque
from dataclasses import dataclass

from kvis_runtime.engine.block_pool import BlockPool
from kvis_runtime.engine.limits import Limits
from kvis_runtime.engine.prefix_cache import PrefixCache
from kvis_runtime.engine.request import Counters, FinishedReason, Output, Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `start .. start + count` of a sequence, to be computed in this step."""

    sequence: Sequence
    start: int
    count: int

    @property
    def end(self) -> int:
        """Context length after the step."""
        return self.start + self.count

    @property
    def samples(self) -> bool:
        """Whether the chunk reaches the last token, whose logits give the next one."""
        return self.end == len(self.sequence.tokens)


class Scheduler:
    """Owns the waiting and running sequences. One `schedule` is followed by one `commit`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pool = BlockPool(limits.num_blocks)
        self.cache = PrefixCache(self.pool, limits.block_size, enabled=limits.prefix_caching)
        self.counters = Counters()
        self.cap = limits.max_num_seqs
        # Both are in order of arrival, and everything running arrived before everything waiting.
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence behind all others."""
        self.waiting.append(sequence)

    def abort(self, request_id: str) -> Sequence | None:
        """Drop a sequence at once and free its blocks; None when there is no such one."""
        for queue in (self.running, self.waiting):
            for sequence in queue:
                if sequence.request.request_id == request_id:
                    queue.remove(sequence)
                    self._release(sequence)
                    return sequence
        return None

    def set_cap(self, cap: int) -> int:
        """Set how many sequences may run, within 1 and the ceiling; a lower cap only stops admission."""
        self.cap = max(1, min(cap, self.limits.max_num_seqs))
        return self.cap

    def schedule(self, *, now: float) -> list[Chunk]:
        """The chunks of the next step, decodes before prompts; their blocks are allocated."""
        budget = self.limits.max_num_batched_tokens
        decodes, preempted = self._schedule_decodes()
        chunks = decodes
        budget -= len(decodes)
        for sequence in self.running:
            if budget and sequence.pending > 1:
                chunks.append(self._chunk(sequence, budget))
                budget -= chunks[-1].count
        while budget and not preempted and self._admit_next(now):
            chunks.append(self._chunk(self.running[-1], budget))
            budget -= chunks[-1].count
        return chunks

    def commit(self, chunks: list[Chunk], tokens: list[int], *, now: float) -> list[Output]:
        """Record that the chunks are computed; `tokens` are the new ones of chunks that sample, in order."""
        new = iter(tokens)
        outputs = []
        self.counters.steps += 1
        for chunk in chunks:
            chunk.sequence.computed = chunk.end
            self.counters.computed_tokens += chunk.count
            if chunk.samples:
                outputs.append(self._append(chunk.sequence, next(new), now=now))
        return outputs

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes; running sequences go on undisturbed."""
        self.pool.forget_cached()

    def _schedule_decodes(self) -> tuple[list[Chunk], bool]:
        chunks: list[Chunk] = []
        preempted = False
        index = 0
        while index < len(self.running):
            sequence = self.running[index]
            if sequence.pending > 1:
                index += 1
                continue
            if self._has_room(sequence):
                chunks.append(self._chunk(sequence, 1))
                index += 1
                continue
            preempted = True
            self._preempt(self.running.pop())
        return chunks, preempted

    def _has_room(self, sequence: Sequence) -> bool:
        missing = self.limits.blocks_for(len(sequence.tokens)) - len(sequence.blocks)
        if missing <= 0:
            return True
        blocks = self.pool.allocate(missing)
        if blocks is None:
            return False
        sequence.blocks.extend(blocks)
        return True

    def _chunk(self, sequence: Sequence, budget: int) -> Chunk:
        # Blocks are published when they are scheduled: the step writes all KV of a layer before any attention
        # reads it, so requests that arrive together already share their prefix. A sequence scheduled in this
        # step is never preempted in it.
        chunk = Chunk(sequence, sequence.computed, min(budget, sequence.pending))
        self.cache.publish(sequence, chunk.end)
        return chunk

    def _admit_next(self, now: float) -> bool:
        if not self.waiting or len(self.running) >= self.cap:
            return False
        sequence = self.waiting[0]
        matched = self.cache.match(sequence)
        blocks = self._take(matched, self.limits.blocks_for(len(sequence.tokens)) - len(matched))
        if blocks is None:
            return False
        self.running.append(self.waiting.popleft())
        sequence.blocks = blocks
        sequence.published = len(matched)
        sequence.computed = len(matched) * self.limits.block_size
        self._count_admission(sequence, now)
        return True

    def _take(self, matched: list[int], fresh: int) -> list[int] | None:
        # One block is left for each running sequence to grow into; else the newcomer is preempted at once.
        if fresh + len(self.running) > self.pool.available:
            return None
        for block in matched:
            self.pool.acquire(block)
        blocks = self.pool.allocate(fresh)
        if blocks is None:  # the matched blocks were among the available ones
            self.pool.release(reversed(matched))
            return None
        return matched + blocks

    def _count_admission(self, sequence: Sequence, now: float) -> None:
        if sequence.cached_tokens is not None:
            return
        sequence.first_scheduled = now
        sequence.cached_tokens = sequence.computed
        if self.limits.prefix_caching:
            self.counters.prefix_queries += sequence.prompt_tokens
            self.counters.prefix_hits += sequence.computed

    def _append(self, sequence: Sequence, token: int, *, now: float) -> Output:
        sequence.tokens.append(token)
        sequence.last_token = now
        self.counters.generation_tokens += 1
        if sequence.first_token is None:
            sequence.first_token = now
            self.counters.prompt_tokens += sequence.prompt_tokens
        reason = None
        if token in sequence.stop_ids:
            reason = FinishedReason.STOP
        elif len(sequence.tokens) >= sequence.max_length:
            reason = FinishedReason.LENGTH
        if reason is not None:
            self.running.remove(sequence)
            self._release(sequence)
        return sequence.output((token,), reason)

    def _preempt(self, sequence: Sequence) -> None:
        self._release(sequence)
        sequence.computed = 0
        sequence.published = 0
        sequence.preemptions += 1
        self.counters.preemptions += 1
        self.waiting.appendleft(sequence)

    def _release(self, sequence: Sequence) -> None:
        self.pool.release(reversed(sequence.blocks))
        sequence.blocks = []

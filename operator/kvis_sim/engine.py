"""One simulated replica: continuous batching with chunked prefill, paged KV, preemption by recomputation.

Each step decodes one token of every running sequence and spends what is left of the token budget on
prompts, first come first served, as vLLM's scheduler does. Steps are not simulated one by one: while the
batch stays the same the step time is linear in the step's number, so a whole stretch has a closed form. A
stretch ends when a prompt is computed, a sequence finishes, memory runs out, or somebody arrives who can
join at the next step.

The cluster calls `add` and `step_end` in order of time; `next_time` says when it is this replica's turn.
"""

import math
import random
from collections import deque
from heapq import heapify, heappop, heappush

from kvis_sim.meters import PodMeter
from kvis_sim.paged_kv import PagedKV
from kvis_sim.sequences import EngineLimits, Sequence, Sink
from kvis_sim.step_laws import StepLaw
from kvis_sim.stretch import Stretch

NEVER = math.inf


class Replica:
    """The engine of one pod. Times in seconds; `step` counts engine steps since the start."""

    __slots__ = (
        "_batch",
        "_decoding",
        "_finishing",
        "_law",
        "_most",
        "_noise",
        "_orders",
        "_prefilling",
        "_random",
        "_running",
        "_sink",
        "_stretch",
        "_todo",
        "_waiting",
        "cap",
        "in_flight",
        "kv",
        "meter",
        "next_time",
        "queued_tokens",
        "slowness",
        "step",
    )

    def __init__(
        self,
        law: StepLaw,
        kv: PagedKV,
        limits: EngineLimits,
        sink: Sink,
        rng: random.Random,
    ) -> None:
        self.kv = kv
        self.meter = PodMeter()
        self.cap = limits.max_num_seqs
        self.slowness = 1.0  # factor on every step's time
        self.next_time = NEVER
        self.in_flight = 0
        self.queued_tokens = 0  # uncached prompt tokens, waiting or being computed
        self.step = 0
        self._law = law
        self._most = limits.max_num_seqs
        self._batch = limits.max_num_batched_tokens
        self._noise = limits.noise
        self._sink = sink
        self._random = rng
        self._orders = 0
        self._waiting: deque[Sequence] = deque()
        self._prefilling: deque[Sequence] = deque()
        self._running: dict[int, Sequence] = {}  # by order of admission
        self._finishing: list[tuple[int, int, Sequence]] = []  # decoding, by last step
        self._decoding = 0
        self._todo = 0  # prompt tokens to compute, of admitted sequences
        self._stretch = Stretch()

    # What the cluster asks

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def decoding(self) -> int:
        return self._decoding

    @property
    def prefill_per_step(self) -> int:
        return self._stretch.prefill

    def add(self, sequence: Sequence, now: float) -> None:
        self.in_flight += 1
        self._queue(sequence)
        self._waiting.append(sequence)
        if not self._stretch.steps:
            self._plan(now)
        elif len(self._waiting) == 1:
            self._let_join(now)

    def set_cap(self, cap: int, now: float) -> None:
        """The live cap. A lower one cancels nothing: running sequences drain down to it."""
        self.cap = max(1, min(cap, self._most))
        if self._waiting:
            self._let_join(now)

    def abandon(self) -> list[Sequence]:
        """The pod dies: all it held."""
        held = [*self._running.values(), *self._waiting]
        self._running.clear()
        self._waiting.clear()
        self._prefilling.clear()
        self._finishing.clear()
        self._decoding = self._todo = self.in_flight = self.queued_tokens = self._stretch.steps = 0
        self.next_time = NEVER
        self.kv.forget()
        return held

    def steps_done(self, now: float) -> int:
        """Whole steps of the stretch under way that are over at `now`."""
        return self._stretch.done(now)

    def seconds_done(self, steps: int) -> float:
        """Engine time of the first `steps` steps of the stretch under way."""
        return self._stretch.seconds(steps)

    # Planning

    def _let_join(self, now: float) -> None:
        """Ends a stretch of pure decoding at the next step, if the newcomer may run."""
        stretch = self._stretch
        if stretch.steps > 1 and not stretch.prefill and len(self._running) < self.cap:
            self.next_time = stretch.cut(now)

    def _plan(self, now: float) -> None:
        """Chooses the next stretch. Memory that does not suffice for one step preempts the last admitted."""
        preempted = False
        while True:
            if self._waiting and not preempted:
                self._admit(now)
            if self._prefilling:
                steps, pairs = self._plan_prefill()
            elif self._finishing:
                steps, pairs = self._finishing[0][0] - self.step, 0.0
                self._stretch.prefill = 0
            else:
                self._stretch.steps, self.next_time = 0, NEVER
                return
            if self._decoding:
                steps = self.kv.growth_fits(self.step, steps)
            if steps:
                break
            self._preempt()
            preempted = True
        # After a preemption the next step may admit again, as vLLM's does.
        self._begin(now, 1 if preempted else steps, pairs)

    def _begin(self, now: float, steps: int, pairs: float) -> None:
        stretch = self._stretch
        first, growth = self._law.progression(
            stretch.prefill, pairs, self._decoding, self.kv.tokens(self.step)
        )
        scale = self.slowness
        if self._noise:
            # Independent noise of each step averages out over a stretch.
            scale *= max(0.2, 1.0 + self._noise * self._random.gauss(0.0, 1.0) / math.sqrt(steps))
        self.next_time = stretch.begin(now, steps, first * scale, growth * scale)

    def _plan_prefill(self) -> tuple[int, float]:
        """Steps and chunk positions of the next stretch with prompt tokens; sets the tokens per step."""
        budget = max(1, self._batch - self._decoding)
        head = self._prefilling[0]
        todo = head.todo
        if todo == self._todo <= budget:  # one prompt, one step
            self._stretch.prefill = todo
            return 1, todo * (2.0 * head.context - todo)
        if todo > budget:
            steps = (todo - 1) // budget
            if self._finishing:
                steps = min(steps, self._finishing[0][0] - self.step)
            self._stretch.prefill = budget
            return steps, budget * (2.0 * (head.context - todo) + budget)
        tokens, pairs = 0, 0.0
        for sequence in self._prefilling:
            chunk = min(sequence.todo, budget - tokens)
            pairs += chunk * (2.0 * (sequence.context - sequence.todo) + chunk)
            tokens += chunk
            if tokens >= budget:
                break
        self._stretch.prefill = tokens
        return 1, pairs

    def step_end(self) -> None:
        """The stretch is over at `next_time`: hand out tokens, finish, plan the next one."""
        now, stretch, decoding, meter = self.next_time, self._stretch, self._decoding, self.meter
        steps = stretch.steps
        self.step += steps
        seconds = now - stretch.began
        meter.steps += steps
        meter.busy_seconds += seconds
        if decoding:
            meter.generated_tokens += steps * decoding
            meter.inter_token.observe(seconds / steps, steps * decoding)
            if self.kv.shares:
                self.kv.settle(self.step)
        if stretch.prefill:
            self._prefilled(steps * stretch.prefill, now)
        finishing, step = self._finishing, self.step
        while finishing and finishing[0][0] <= step:
            sequence = heappop(finishing)[2]
            self._decoding -= 1
            self.kv.end_growing(sequence.context + sequence.left - 1, sequence.blocks, step)
            self._finish(sequence, now)
        self._plan(now)

    # Life of a sequence

    def _admit(self, now: float) -> None:
        waiting, running, kv, meter = self._waiting, self._running, self.kv, self.meter
        budget = self._batch - self._decoding - self._todo
        while waiting and budget > 0 and len(running) < self.cap:
            sequence = waiting[0]
            context, blocks = sequence.context, sequence.blocks
            # The last prompt token is computed even if its block is here: its logits are needed.
            hits = min(kv.cached_prefix(blocks), (context - 1) // kv.block_size) if blocks else 0
            if not kv.admit(context, blocks, self.step):
                return
            waiting.popleft()
            cached = hits * kv.block_size
            meter.prefix_queries += context
            meter.prefix_hits += cached
            if sequence.first_at < 0.0:
                meter.first_queries += context
                meter.first_hits += cached
            self._orders += 1
            sequence.order = self._orders
            sequence.admitted_at = now
            todo = context - cached
            self.queued_tokens += todo - sequence.todo
            sequence.todo = todo
            self._todo += todo
            budget -= todo
            running[sequence.order] = sequence
            self._prefilling.append(sequence)

    def _prefilled(self, tokens: int, now: float) -> None:
        self.meter.computed_prompt_tokens += tokens
        self.queued_tokens -= tokens
        self._todo -= tokens
        prefilling = self._prefilling
        while tokens:
            sequence = prefilling[0]
            if sequence.todo > tokens:
                sequence.todo -= tokens
                return
            tokens -= sequence.todo
            sequence.todo = 0
            prefilling.popleft()
            self._emit_first(sequence, now)

    def _emit_first(self, sequence: Sequence, now: float) -> None:
        """The prompt is computed, and with it the next token."""
        meter = self.meter
        meter.generated_tokens += 1
        meter.prefill.observe(now - sequence.admitted_at)
        if sequence.first_at < 0.0:
            sequence.first_at = now
            meter.prompt_tokens += sequence.context
            meter.ttft.observe(now - sequence.request.at)
        if sequence.left == 1:
            self.kv.end_prefill(sequence.context, sequence.blocks)
            self._finish(sequence, now)
            return
        self.kv.start_growing(sequence.context, len(sequence.blocks), self.step)
        sequence.decoding = True
        sequence.finish_step = self.step + sequence.left - 1
        heappush(self._finishing, (sequence.finish_step, sequence.order, sequence))
        self._decoding += 1

    def _finish(self, sequence: Sequence, now: float) -> None:
        del self._running[sequence.order]
        self.in_flight -= 1
        meter, output = self.meter, sequence.request.output
        meter.finished += 1
        if output > 1:
            meter.tpot.observe((now - sequence.first_at) / (output - 1))
        self._sink.finished(sequence, now)

    def _preempt(self) -> None:
        """The last admitted sequence loses its blocks and goes back to the head of the queue, to be
        recomputed.
        """
        _, sequence = self._running.popitem()
        blocks = sequence.blocks
        if sequence.decoding:
            emitted = sequence.left - (sequence.finish_step - self.step)
            length = sequence.context + emitted - 1
            self._finishing.remove((sequence.finish_step, sequence.order, sequence))
            heapify(self._finishing)
            self._decoding -= 1
            self.kv.end_growing(length, blocks, self.step)
            sequence.context += emitted
            sequence.left -= emitted
            sequence.decoding = False
        else:
            length = sequence.context - sequence.todo
            self._prefilling.pop()
            self.queued_tokens -= sequence.todo
            self._todo -= sequence.todo
            self.kv.end_prefill(sequence.context, blocks)
        self.meter.preemptions += 1
        self.meter.preempted_tokens += length
        self._queue(sequence)
        self._waiting.appendleft(sequence)

    def _queue(self, sequence: Sequence) -> None:
        """Books the prompt tokens that waiting costs, as far as the cache can tell now."""
        blocks = sequence.blocks
        cached = self.kv.cached_prefix(blocks) * self.kv.block_size if blocks else 0
        sequence.todo = sequence.context - cached
        self.queued_tokens += sequence.todo

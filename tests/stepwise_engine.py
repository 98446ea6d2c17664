"""A replica simulated one step at a time, with plain lists: the yardstick for the engine's closed forms.

Slow and simple on purpose. It shares no code with `kvis_sim.engine` or `kvis_sim.paged_kv`, only the step
law.
"""

from dataclasses import dataclass, field

from kvis_sim.step_laws import StepLaw
from kvis_sim.workload import Request


@dataclass(eq=False)
class Job:
    request: Request
    context: int
    left: int
    todo: int = 0
    length: int = 0  # KV tokens held
    first_at: float | None = None
    finished_at: float | None = None


@dataclass
class StepwiseEngine:
    law: StepLaw
    total_blocks: int
    block_size: int
    max_num_seqs: int
    batch: int
    waiting: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)  # by admission
    cached: list[int] = field(default_factory=list)  # idle known blocks, oldest first
    hits: int = 0
    queries: int = 0
    preemptions: int = 0
    now: float = 0.0

    def run(self, requests: list[Request]) -> list[Job]:
        jobs = [Job(r, r.prompt, r.output) for r in requests]
        coming = list(jobs)
        while coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now = max(self.now, coming[0].request.at)
            # Whoever arrives exactly at a step's end is there for the next one.
            while coming and coming[0].request.at <= self.now + 1e-12:
                self.waiting.append(coming.pop(0))
            self.step()
        return jobs

    def known_in_use(self) -> set[int]:
        return {b for job in self.running for b in job.request.blocks}

    def blocks_in_use(self, growth: int = 0) -> int:
        anonymous = 0
        for job in self.running:
            reserved = job.context if job.todo else job.length + growth
            anonymous += -(-reserved // self.block_size) - len(job.request.blocks)
        return anonymous + len(self.known_in_use())

    def evict(self) -> None:
        while self.cached and self.blocks_in_use() + len(self.cached) > self.total_blocks:
            self.cached.pop(0)

    def admit(self) -> None:
        while self.waiting and len(self.running) < self.max_num_seqs:
            decoding = sum(job.todo == 0 for job in self.running)
            if self.batch - decoding - sum(job.todo for job in self.running) <= 0:
                return
            job = self.waiting[0]
            here = self.known_in_use() | set(self.cached)
            hits = 0
            while hits < len(job.request.blocks) and job.request.blocks[hits] in here:
                hits += 1
            hits = min(hits, (job.context - 1) // self.block_size)
            self.running.append(job)
            job.todo = job.context - hits * self.block_size
            if self.blocks_in_use() > self.total_blocks:
                self.running.pop()
                job.todo = 0
                return
            self.waiting.pop(0)
            self.hits += hits * self.block_size
            self.queries += job.context
            self.cached = [b for b in self.cached if b not in job.request.blocks]
            self.evict()

    def release(self, job: Job) -> None:
        self.running.remove(job)
        still = self.known_in_use()
        self.cached += [b for b in reversed(job.request.blocks) if b not in still]

    def preempt(self) -> None:
        job = self.running[-1]
        emitted = 0 if job.todo else job.length - job.context + 1
        self.release(job)
        job.context += emitted
        job.left -= emitted
        job.todo = job.length = 0
        self.waiting.insert(0, job)
        self.preemptions += 1

    def chunks(self, budget: int) -> tuple[list[tuple[Job, int]], int]:
        """Prompt tokens by job for one step, first come first served, and their attention work."""
        found, pairs = [], 0
        for job in self.running:
            chunk = min(job.todo, budget)
            if chunk:
                start = job.context - job.todo
                pairs += (start + chunk) ** 2 - start**2
                found.append((job, chunk))
                budget -= chunk
        return found, pairs

    def step(self) -> None:
        preempted = False
        while True:
            if not preempted:
                self.admit()
            decoding = [job for job in self.running if not job.todo]
            if not decoding or self.blocks_in_use(growth=1) <= self.total_blocks:
                break
            self.preempt()
            preempted = True
        chunks, pairs = self.chunks(max(1, self.batch - len(decoding)))
        prefill = sum(chunk for _, chunk in chunks)
        seconds, _ = self.law.progression(prefill, pairs, len(decoding), sum(j.length for j in decoding))
        self.now += seconds
        for job in decoding:
            job.length += 1
        self.evict()
        for job, chunk in chunks:
            job.todo -= chunk
            if not job.todo:
                job.length = job.context
                job.first_at = job.first_at or self.now
        done = [job for job in decoding if job.length == job.context + job.left - 1]
        done += [job for job, _ in chunks if not job.todo and job.left == 1]
        for job in done:
            job.finished_at = self.now
        for job in sorted(done, key=lambda j: (j.left != 1, self.running.index(j))):
            self.release(job)

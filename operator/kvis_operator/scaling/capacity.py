"""Requests per second that one replica carries within its TPOT objective (reference H3).

    u      = max(1, (1-h)*I)                          uncached prompt tokens per request
    t(B)   = a + d*B + c*B*(I + O/2)                  step time without prefill, B running requests
    ITL(B) = t(B) + B*u*p/O                           mean step time with prefill
    mu(B)  = B / (O*t(B) + B*u*p)                     requests/s, and Little: mu*O*ITL = B

mu grows with B and ITL is linear in B, so the largest batch that memory and the objective allow is the best; no search.

    I=1155 O=211 h=.3, a=26ms p=.094ms d=.2ms c=1e-4ms, KV 480,000 tokens, 256 seqs, TPOT 100 ms
    -> B* = 93, ITL = 89.82 ms, mu* = 4.907/s
"""

import math
from dataclasses import dataclass
from typing import Final

from kvis_operator.scaling.spec import StepTime

KV_FILL_BATCH: Final = 0.92  # of the KV cache that a full batch may take
TPOT_GUARD: Final = 0.9  # of the TPOT objective: mean against a tail
SHORTEST_REQUEST: Final = 1.0  # tokens; means beyond these two are broken counters
LONGEST_REQUEST: Final = 1e8


@dataclass(frozen=True, slots=True)
class Mix:
    """The mean request: prompt tokens, generated tokens, share of the prompt found in the cache (0-1)."""

    input_tokens: float
    output_tokens: float
    hit_rate: float = 0.0

    @property
    def uncached_tokens(self) -> float:
        return max(1.0, (1.0 - self.hit_rate) * self.input_tokens)

    @property
    def mean_context(self) -> float:
        """Tokens a request holds on average while it runs: I + O/2."""
        return self.input_tokens + self.output_tokens / 2


@dataclass(frozen=True, slots=True)
class Replica:
    """What one replica is: step law, KV tokens, ceiling on running requests, TPOT objective in seconds."""

    step: StepTime
    kv_tokens: float
    max_num_seqs: int
    tpot_slo_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """`rate` is mu*, requests/s. `feasible` is False when not even one request alone fits or meets the objective."""

    batch: int
    batch_max: int
    rate: float
    itl_seconds: float
    lowest_itl_seconds: float
    feasible: bool


def capacity(replica: Replica, mix: Mix) -> Capacity:
    """The best operating point. An infeasible one has batch 0 and rate 0: check `feasible` before dividing."""
    batch_max = largest_batch(replica, mix)
    lowest = itl(replica.step, mix, 1)
    batch = batch_max
    if replica.tpot_slo_seconds is not None:
        step = replica.step
        slope = step.d + step.c * mix.mean_context + mix.uncached_tokens * step.p / mix.output_tokens
        room = TPOT_GUARD * replica.tpot_slo_seconds - step.a
        batch = min(batch_max, math.floor(room / slope)) if slope > 0 else (batch_max if room >= 0 else 0)
    if batch < 1:
        return Capacity(0, batch_max, 0.0, lowest, lowest, feasible=False)
    return Capacity(
        batch, batch_max, rate(replica.step, mix, batch), itl(replica.step, mix, batch), lowest, feasible=True
    )


def largest_batch(replica: Replica, mix: Mix) -> int:
    """Bmax: what the ceiling and the KV memory allow."""
    fitting = KV_FILL_BATCH * replica.kv_tokens / (mix.input_tokens + mix.output_tokens)
    return min(replica.max_num_seqs, math.floor(fitting))


def decode_step(step: StepTime, mix: Mix, batch: float) -> float:
    """t(B), seconds."""
    return step.a + step.d * batch + step.c * batch * mix.mean_context


def itl(step: StepTime, mix: Mix, batch: float) -> float:
    """ITL(B), seconds."""
    return decode_step(step, mix, batch) + batch * mix.uncached_tokens * step.p / mix.output_tokens


def rate(step: StepTime, mix: Mix, batch: float) -> float:
    """mu(B), requests/s."""
    cycle = mix.output_tokens * decode_step(step, mix, batch) + batch * mix.uncached_tokens * step.p
    return batch / cycle if cycle > 0 else math.inf


def itl_at(step: StepTime, mix: Mix, requests_per_second: float) -> float:
    """ITL of a replica that is offered this rate, by Little's law; inf beyond its ceiling."""
    per_request = mix.output_tokens * (step.d + step.c * mix.mean_context) + mix.uncached_tokens * step.p
    left = 1.0 - requests_per_second * per_request
    return step.a / left if left > 0 else math.inf

"""How many replicas the load needs: whole ones to grow to, a fraction to remember for shrinking (reference H4).

    up   = max( ceil(rate / mu_up + max(0, backlog - .3)),  ceil((K + waiting tokens) / (.9 KVcap)) )
    down = max( rate60 / mu_dn,  (rate60 + 2 sigma) / mu_up,  K / (.75 KVcap) )

Rates are counts of requests, so their noise is known: a burst must stand out of it, and shrinking must survive it.
An unknown input drops its term: the rest may still ask for more, but `down` is then None and nothing shrinks.
"""

import math
from dataclasses import dataclass
from typing import Final

from kvis_operator.scaling.capacity import Capacity, Mix
from kvis_operator.scaling.decision import Reason

KV_FILL_UP: Final = 0.90
KV_FILL_DOWN: Final = 0.75
MINUTE: Final = 60.0  # seconds in the window of rate_60s
BACKLOG_SECONDS: Final = 60.0  # within which a queue should be cleared
DEAD_BAND: Final = 0.3  # replicas of backlog that are not worth a start
BURST_RATIO: Final = 1.5  # last tick over last minute
BURST_SIGMAS: Final = 3.0  # of counting noise taken off the last tick's rate: what is left is certain
SHRINK_SIGMAS: Final = 2.0  # of counting noise that a smaller fleet must carry without growing again
COUNTED_REQUESTS: Final = 100.0  # in the last minute; with fewer, three minutes are averaged in
MOST: Final = 1_000_000.0  # replicas; keeps absurd inputs finite


@dataclass(frozen=True, slots=True)
class Load:
    """The demand side, None where unknown: requests/s, requests waiting, KV tokens in use."""

    rate_15s: float | None
    rate_60s: float | None
    rate_180s: float | None
    waiting: float | None
    kv_tokens: float | None
    tick_seconds: float
    prefill_seconds_per_token: float


@dataclass(frozen=True, slots=True)
class Need:
    up: int | None
    down: float | None
    reason: Reason  # which term of `up` is the largest
    rate: float | None  # requests/s that `up` is for
    backlog: float | None  # replicas that clear the queue in a minute
    memory: int | None


def need(
    load: Load, mix: Mix | None, cap: Capacity | None, kv_tokens: float, *, rho_up: float, rho_down: float
) -> Need:
    """Replicas for `load`. `cap` and `mix` are None while the shape of requests is unknown; `kv_tokens` of one."""
    rate, bursting = _expected_rate(load)
    compute = _replicas_for(rate, cap, rho_up)
    backlog = _backlog(load, mix)
    queue = 0.0 if backlog is None else max(0.0, backlog - DEAD_BAND)
    memory = memory_need(_pledged_tokens(load, mix), kv_tokens, KV_FILL_UP)
    terms = [
        term for term in (None if compute is None else whole(compute + queue), memory) if term is not None
    ]
    down_compute = _replicas_to_keep(load.rate_60s, cap, rho_up, rho_down)
    down_memory = None if load.kv_tokens is None else load.kv_tokens / (KV_FILL_DOWN * kv_tokens)
    down = None if down_compute is None or down_memory is None else min(MOST, max(down_compute, down_memory))
    up = max(terms, default=None)
    return Need(up, down, _reason(up, compute, memory, bursting=bursting), rate, backlog, memory)


def memory_need(tokens: float | None, kv_tokens: float, fill: float) -> int | None:
    """Replicas whose KV caches, filled to `fill`, hold `tokens`. 4 pods at .9 for a fill of .5 -> 8."""
    return None if tokens is None else whole(tokens / (fill * kv_tokens))


def whole(replicas: float) -> int:
    """Rounded up, forgiving the rounding of floats and absurd inputs."""
    return math.ceil(min(MOST, replicas) - 1e-9)


def _expected_rate(load: Load) -> tuple[float | None, bool]:
    """The last minute's rate, or what the last tick's certainly is when that is a burst."""
    slow, fast = _counted_rate(load), load.rate_15s
    if slow is None or fast is None or fast <= BURST_RATIO * slow:
        return slow, False
    certain = fast - BURST_SIGMAS * math.sqrt(fast / load.tick_seconds)
    return max(slow, certain), certain > slow


def _counted_rate(load: Load) -> float | None:
    """The last minute's rate, steadied by the last three minutes' where it rests on few requests."""
    if load.rate_60s is None or load.rate_180s is None:
        return load.rate_60s
    share = min(1.0, load.rate_60s * MINUTE / COUNTED_REQUESTS)
    return share * load.rate_60s + (1.0 - share) * load.rate_180s


def _replicas_for(rate: float | None, cap: Capacity | None, rho: float) -> float | None:
    """Compute term; a service that gets nothing needs nothing, whatever one replica can do."""
    if rate is None:
        return None
    if rate <= 0:
        return 0.0
    return rate / (rho * cap.rate) if cap is not None and cap.feasible else None


def _replicas_to_keep(
    rate: float | None, cap: Capacity | None, rho_up: float, rho_down: float
) -> float | None:
    """Compute term of `down`: fewer must not be asked to grow again by the noise of counting alone."""
    calm = _replicas_for(rate, cap, rho_down)
    if calm is None or rate is None or rate <= 0:
        return calm
    noisy = _replicas_for(rate + SHRINK_SIGMAS * math.sqrt(rate / MINUTE), cap, rho_up)
    return calm if noisy is None else max(calm, noisy)


def _backlog(load: Load, mix: Mix | None) -> float | None:
    """Replicas that compute within a minute the prompts that wait."""
    if load.waiting is None or mix is None:
        return None
    return load.waiting * mix.uncached_tokens * load.prefill_seconds_per_token / BACKLOG_SECONDS


def _pledged_tokens(load: Load, mix: Mix | None) -> float | None:
    """KV tokens in use plus those that the waiting requests will take."""
    if load.kv_tokens is None:
        return None
    if load.waiting is None or mix is None:
        return load.kv_tokens
    return load.kv_tokens + load.waiting * mix.input_tokens


def _reason(up: int | None, compute: float | None, memory: int | None, *, bursting: bool) -> Reason:
    if up is not None and memory == up and (compute is None or whole(compute) < up):
        return Reason.MEMORY
    if up is not None and compute is not None and whole(compute) < up:
        return Reason.BACKLOG
    return Reason.BURST if bursting else Reason.CAPACITY

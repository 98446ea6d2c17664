"""How many replicas the load needs: whole ones to grow to, a fraction to remember for shrinking (reference H4).

    up   = ceil( max( rate / mu_up + max(0, backlog - .3),  (K + waiting tokens) / (.9 KVcap) ) + spare )
    down = max( rate / mu_dn,  K / (.75 KVcap) ) + spare
    keep = usual peak / usual mu_up + spare

backlog = waiting / (60 mu), mu being what one replica serves a second. The prompts' work alone, which the reference
counts, is a small part of it where answers are long. Rates are counts of requests, so their noise is known: a burst
must stand out of it. What is left after shrinking must carry the usual peak (scaling/spread.py) without growing again.
An unknown input drops its term: the rest may still ask for more, but `down` is then None and nothing shrinks.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from kvis_operator.scaling.capacity import Capacity, Mix
from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.spread import MINUTE

KV_FILL_UP: Final = 0.90
KV_FILL_DOWN: Final = 0.75
BACKLOG_SECONDS: Final = 60.0  # within which a queue should be cleared
DEAD_BAND: Final = 0.3  # replicas of backlog that are not worth a start
BURST_RATIO: Final = 1.5  # last tick over last minute
BURST_SIGMAS: Final = 3.0  # of counting noise taken off the last tick's rate: what is left is certain
COUNTED_REQUESTS: Final = 100.0  # in the last minute; with fewer, three minutes are averaged in
MOST: Final = 1_000_000.0  # replicas; keeps absurd inputs finite


def steady_rate(rate_60s: float | None, rate_180s: float | None) -> float | None:
    """The last minute's rate, steadied by the last three minutes' where it rests on few requests."""
    if rate_60s is None or rate_180s is None:
        return rate_60s
    share = min(1.0, rate_60s * MINUTE / COUNTED_REQUESTS)
    return share * rate_60s + (1.0 - share) * rate_180s


@dataclass(frozen=True, slots=True)
class Load:
    """The demand side, None where unknown: requests/s, requests waiting, KV tokens in use."""

    rate_15s: float | None
    steady: float | None  # of the last minute or so
    waiting: float | None
    kv_tokens: float | None
    tick_seconds: float
    prefill_seconds_per_token: float
    usual_peak: float | None = None  # of the last minutes, requests/s
    usually_carried: float | None = None  # by one replica, requests/s; None: what it carries now


@dataclass(frozen=True, slots=True)
class Need:
    up: int | None
    down: float | None
    keep: float | None  # that carry the usual peak; None: unknown
    reason: Reason  # which term of `up` is the largest
    rate: float | None  # requests/s that `up` is for
    backlog: float | None  # replicas that clear the queue in a minute
    memory: int | None


def need(
    load: Load, mix: Mix | None, cap: Capacity | None, kv_tokens: float, *, rho_up: float, rho_down: float,
    rho_keep: float | None = None, spare: float = 0.0,
) -> Need:  # fmt: skip
    """Replicas for `load`. `cap` and `mix` are None while the shape of requests is unknown; `kv_tokens` of one.

    The usual peak may take `rho_keep` of what is kept, `rho_up` unless given.
    `spare` replicas come on top, whatever the load: a burst over before a new pod serves is carried by them alone.
    """
    rate, bursting = _expected_rate(load)
    compute = _replicas_for(rate, cap, rho_up)
    backlog = _backlog(load, mix, cap)
    queue = 0.0 if backlog is None else max(0.0, backlog - DEAD_BAND)
    held = _filled(_pledged_tokens(load, mix), kv_tokens, KV_FILL_UP)
    terms = [term for term in (_plus(compute, queue), held) if term is not None]
    up = whole(max(terms) + spare) if terms else None
    down_compute = _replicas_for(load.steady, cap, rho_down)
    down_memory = _filled(load.kv_tokens, kv_tokens, KV_FILL_DOWN)
    down = None
    if down_compute is not None and down_memory is not None:
        down = min(MOST, max(down_compute, down_memory) + spare)
    usual = replace(cap, rate=load.usually_carried) if cap is not None and load.usually_carried else cap
    keep = _plus(_replicas_for(load.usual_peak, usual, rho_up if rho_keep is None else rho_keep), spare)
    reason = _reason(up, _plus(compute, spare), _plus(held, spare), bursting=bursting)
    return Need(up, down, keep, reason, rate, backlog, None if held is None else whole(held))


def _plus(replicas: float | None, more: float) -> float | None:
    return None if replicas is None else replicas + more


def memory_need(tokens: float | None, kv_tokens: float, fill: float) -> int | None:
    """Replicas whose KV caches, filled to `fill`, hold `tokens`. 4 pods at .9 for a fill of .5 -> 8."""
    filled = _filled(tokens, kv_tokens, fill)
    return None if filled is None else whole(filled)


def _filled(tokens: float | None, kv_tokens: float, fill: float) -> float | None:
    return None if tokens is None else tokens / (fill * kv_tokens)


def whole(replicas: float) -> int:
    """Rounded up, forgiving the rounding of floats and absurd inputs."""
    return math.ceil(min(MOST, replicas) - 1e-9)


def _expected_rate(load: Load) -> tuple[float | None, bool]:
    """The steady rate, or what the last tick's certainly is when that is a burst."""
    slow, fast = load.steady, load.rate_15s
    if slow is None or fast is None or fast <= BURST_RATIO * slow:
        return slow, False
    certain = fast - BURST_SIGMAS * math.sqrt(fast / load.tick_seconds)
    return max(slow, certain), certain > slow


def _replicas_for(rate: float | None, cap: Capacity | None, rho: float) -> float | None:
    """Compute term; a service that gets nothing needs nothing, whatever one replica can do."""
    if rate is None:
        return None
    if rate <= 0:
        return 0.0
    return rate / (rho * cap.rate) if cap is not None and cap.feasible else None


def _backlog(load: Load, mix: Mix | None, cap: Capacity | None) -> float | None:
    """Replicas that serve within a minute what waits: prompts and answers alike.

    Where the capacity is unknown or infeasible, those that compute the prompts within a minute, which is less.
    """
    if load.waiting is None or mix is None:
        return None
    if cap is not None and cap.feasible:
        return load.waiting / (cap.rate * BACKLOG_SECONDS)
    return load.waiting * mix.uncached_tokens * load.prefill_seconds_per_token / BACKLOG_SECONDS


def _pledged_tokens(load: Load, mix: Mix | None) -> float | None:
    """KV tokens in use plus those that the waiting requests will take."""
    if load.kv_tokens is None:
        return None
    if load.waiting is None or mix is None:
        return load.kv_tokens
    return load.kv_tokens + load.waiting * mix.input_tokens


def _reason(up: int | None, compute: float | None, held: float | None, *, bursting: bool) -> Reason:
    if up is not None and held is not None and whole(held) == up and (compute is None or compute < held):
        return Reason.MEMORY
    if up is not None and compute is not None and whole(compute) < up:
        return Reason.BACKLOG
    return Reason.BURST if bursting else Reason.CAPACITY

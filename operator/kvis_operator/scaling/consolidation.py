"""Would fewer replicas carry the load? Asked before any scale-down, with the hit rate that fewer would have.

Taking a replica away takes its cached prefixes away where routing keeps prefixes apart, so the test assumes the loss
(reference H5.3): it must pass before the fact, since the loss is charged at once and repaid late.
"""

from dataclasses import replace
from typing import assert_never

from kvis_operator.scaling.capacity import TPOT_GUARD, Mix, Replica, capacity, itl_at
from kvis_operator.scaling.need import KV_FILL_DOWN
from kvis_operator.scaling.spec import HitSharing


def carries(
    replica: Replica, mix: Mix | None, *, replicas: int, instead_of: int, sharing: HitSharing, rate: float,
    kv_tokens: float, rho_down: float,
) -> bool:  # fmt: skip
    """Whether `replicas` would carry `rate` requests/s and `kv_tokens` with the margin for shrinking."""
    if kv_tokens > KV_FILL_DOWN * replica.kv_tokens * replicas:
        return False
    if rate <= 0:
        return True
    if mix is None:
        return False
    fewer = replace(mix, hit_rate=hit_rate_after(mix.hit_rate, replicas, instead_of, sharing))
    best = capacity(replica, fewer)
    if not best.feasible or rate > replicas * rho_down * best.rate:
        return False
    slo = replica.tpot_slo_seconds
    return slo is None or itl_at(replica.step, fewer, rate / replicas) <= TPOT_GUARD * slo


def hit_rate_after(hit_rate: float, replicas: int, instead_of: int, sharing: HitSharing) -> float:
    """The hit rate to expect right after going from `instead_of` to `replicas`."""
    match sharing:
        case HitSharing.UNAWARE | HitSharing.SHARED:
            return hit_rate
        case HitSharing.PREFIX_AWARE:
            return hit_rate * min(1.0, replicas / instead_of)
        case _ as unreachable:
            assert_never(unreachable)

"""The clairvoyant fluid bound: someone who knows the trace, and for whom requests are a fluid.

At every moment it holds ceil(max load over [t, t + start] / capacity) replicas, where the load is the
trace's own and the capacity of one replica is mu* for the mix of that moment (reference H3). No queueing,
no noise: a lower bound for any scaler with that start time that keeps up with the arrivals, not a rule that
could be run.
"""

import math
from collections.abc import Sequence


def replicas_over_time(load: Sequence[float], *, slot_seconds: float, start_seconds: float) -> list[int]:
    """Replicas held per slot, where `load[i]` is the work arriving in slot i, in replicas it keeps busy."""
    ahead = math.ceil(start_seconds / slot_seconds)
    return [max(1, math.ceil(max(load[i : i + ahead + 1]) - 1e-9)) for i in range(len(load))]


def replica_hours(load: Sequence[float], *, slot_seconds: float, start_seconds: float) -> float:
    held = replicas_over_time(load, slot_seconds=slot_seconds, start_seconds=start_seconds)
    return sum(held) * slot_seconds / 3600.0

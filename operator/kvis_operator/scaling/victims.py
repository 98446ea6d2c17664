"""Which pods go first when replicas are taken away.

Pods that serve nobody (failed, pending) before serving ones; then the least work in flight, then the least reused
prefix tokens, then the youngest, whose cache is worth least. A pod whose load is unknown goes last: a stale sample
must not make it look idle. Draining pods are already going and are never named again.
"""

from collections.abc import Sequence

from kvis_operator.signals.observation import PodPhase, PodSignals

_ORDER = {PodPhase.FAILED: 0, PodPhase.PENDING: 1, PodPhase.READY: 2}


def victims(pods: Sequence[PodSignals], count: int) -> tuple[str, ...]:
    """Names of the `count` pods to stop, first first."""
    if count <= 0:
        return ()
    candidates = sorted((pod for pod in pods if pod.phase is not PodPhase.DRAINING), key=_cost)
    return tuple(pod.name for pod in candidates[:count])


def _cost(pod: PodSignals) -> tuple[int, bool, float, float, float, str]:
    in_flight = None if pod.running is None or pod.waiting is None else pod.running + pod.waiting
    reused = (pod.hit_rate or 0.0) * (pod.hit_queries or 0.0)
    return (_ORDER[pod.phase], in_flight is None, in_flight or 0.0, reused, pod.age_seconds, pod.name)

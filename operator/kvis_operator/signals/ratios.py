"""Small sums and quotients over counters and samples, in which unknown parts stay unknown."""

from collections.abc import Iterable, Sequence

from kvis_operator.signals.sample import PodSample
from kvis_operator.signals.series import Counters


def quotient(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole or whole < 0 else part / whole


def total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def running_change(first: PodSample, last: PodSample) -> float:
    return (last.running or 0.0) - (first.running or 0.0)


def kv_tokens(sample: PodSample) -> float | None:
    if sample.kv_usage is None or sample.kv_capacity_tokens is None:
        return None
    return sample.kv_usage * sample.kv_capacity_tokens


def preemptions_per_request(changes: Sequence[Counters | None]) -> float | None:
    """Preemptions per finished request."""
    preemptions = total(change.preemptions for change in changes if change)
    finished = total(change.finished for change in changes if change)
    if preemptions is None or finished is None:
        return None
    return preemptions / max(1.0, finished)


def prefill_decode_ratio(changes: Sequence[Counters | None]) -> float | None:
    """Mean prefill time over mean time between tokens. Grows with prompt length: compare it with its own past."""
    known = [change for change in changes if change is not None]
    prefill = quotient(total(c.prefill_seconds for c in known), total(c.prefills for c in known))
    gap = quotient(total(c.gap_seconds for c in known), total(c.gaps for c in known))
    return quotient(prefill, gap)

"""Names for what is wrong with a signal, shared by parsing, observing and deciding.

A fault never changes a number silently: the number becomes unknown (None) or is clamped, and the fault says so.
"""

from typing import Final

KV_USAGE_OUT_OF_RANGE: Final = "kv_usage_out_of_range"  # clamped to 0-1
NOT_FINITE: Final = "not_finite"  # NaN or Inf where a number was due; the field is unknown
NEGATIVE: Final = "negative"  # a count below zero; the field is unknown
MALFORMED: Final = "malformed_line"  # a line of a needed family could not be read
FUTURE_TIME_STAMP: Final = "future_time_stamp"  # the sample claims to be from the future; its age is unknown
ALIAS: Final = "alias"  # "alias:kv_usage": read under an older name

COUNTER_RESET: Final = "counter_reset"  # a counter went back; the interval was dropped
HITS_EXCEED_QUERIES: Final = "hits_exceed_queries"
HIT_COUNTER_DEAD: Final = "hit_counter_dead"  # tokens came from the cache, yet the hit counter stands still
KV_UNKNOWN: Final = "kv_unknown"  # a ready pod does not report its KV usage
REQUESTS_UNKNOWN: Final = "requests_unknown"  # a ready pod does not report finished requests
STALE: Final = "stale"  # a ready pod without a fresh sample
FROZEN: Final = "frozen"  # requests are running and nothing has moved for minutes

IMPLAUSIBLE: Final = frozenset(
    {HITS_EXCEED_QUERIES, HIT_COUNTER_DEAD, KV_USAGE_OUT_OF_RANGE, NEGATIVE, NOT_FINITE}
)
"""Faults that make a value untrustworthy: condition SignalImplausible."""

DEGRADED: Final = frozenset({KV_UNKNOWN, REQUESTS_UNKNOWN, FROZEN, FUTURE_TIME_STAMP, MALFORMED})
"""Faults that leave a value unknown: condition MetricsDegraded."""


def kind(fault: str) -> str:
    """The fault without the field it concerns: `not_finite:kv_usage` -> `not_finite`."""
    return fault.partition(":")[0]

"""What the loop has done and seen, kept for the operator's own metrics.

Written by passes, read by `serve/metrics.py` at scrape time. The series of a service go away with it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kvis_operator.observe.cluster import Key
from kvis_operator.signals.bands import Band


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The last pass's view of one service; None is not observed."""

    replicas: int = 0
    ready: int = 0
    desired: int | None = None  # what the children are told
    recommended: int | None = None  # what the scaler would set
    hit_rate: float | None = None
    kv_usage: float | None = None
    prefill_decode_ratio: float | None = None
    running: float | None = None
    waiting: float | None = None
    cap_min: int | None = None
    cap_max: int | None = None
    fresh_pods: int = 0
    healthy: bool | None = None
    bands: Mapping[str, Band] = field(default_factory=dict)  # learned ones, by golden metric


@dataclass(slots=True)
class Journal:
    services: dict[Key, ServiceFigures] = field(default_factory=dict)
    decisions: dict[Key, Counter[tuple[str, str]]] = field(default_factory=dict)  # (knob, reason)
    passes: int = 0
    pass_seconds: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)  # by kind of error

    def decided(self, key: Key, knob: str, reason: str) -> None:
        self.decisions.setdefault(key, Counter())[knob, reason] += 1

    def forget(self, key: Key) -> None:
        self.services.pop(key, None)
        self.decisions.pop(key, None)

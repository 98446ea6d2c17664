"""The operator's own metrics: `kvis_*`, computed at scrape time from the loop's journal.

A service's series exist while the service does. What was not observed has no sample: an absent series,
never a zero.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from kvis_operator.observe.cluster import Key
from kvis_operator.reconcile.journal import Journal, ServiceFigures

SERVICE_LABELS: Final = ("namespace", "service")

GAUGES: Final[tuple[tuple[str, str, Callable[[ServiceFigures], float | None]], ...]] = (
    ("kvis_service_replicas", "Pods that exist", lambda f: f.replicas),
    ("kvis_service_ready_replicas", "Pods that serve", lambda f: f.ready),
    ("kvis_service_desired_replicas", "Replicas that the children are told to have", lambda f: f.desired),
    ("kvis_service_recommended_replicas", "Replicas that the scaler would set", lambda f: f.recommended),
    ("kvis_service_prefix_hit_ratio", "Prompt tokens found in the cache, 0 to 1", lambda f: f.hit_rate),
    ("kvis_service_kv_usage_ratio", "KV blocks in use by live requests, 0 to 1", lambda f: f.kv_usage),
    ("kvis_service_prefill_decode_ratio", "Prefill over decode", lambda f: f.prefill_decode_ratio),
    ("kvis_service_requests_running", "Requests that run in ready pods", lambda f: f.running),
    ("kvis_service_requests_waiting", "Requests that wait in ready pods", lambda f: f.waiting),
    ("kvis_service_max_num_seqs_min", "Lowest live cap of a ready pod", lambda f: f.cap_min),
    ("kvis_service_max_num_seqs_max", "Highest live cap of a ready pod", lambda f: f.cap_max),
    ("kvis_service_fresh_pods", "Ready pods with a recent sample", lambda f: f.fresh_pods),
    ("kvis_service_engine_healthy", "1: no pod fails; 0: some do", lambda f: _flag(f.healthy)),
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the numbers come from; each is asked anew at every scrape."""

    journal: Journal
    writes: Callable[[], Mapping[tuple[str, str], int]]  # (verb, resource) -> sent
    queue_depth: Callable[[], int]
    queue_oldest_seconds: Callable[[], float]
    watch_ages: Callable[[], Mapping[str, float]]  # seconds by path
    is_leader: Callable[[], bool]


class OperatorCollector(Collector):
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        yield from _service_gauges(self._sources.journal.services)
        yield _bands(self._sources.journal.services)
        yield _decisions(self._sources.journal)
        yield from _loop(self._sources)


def _service_gauges(services: Mapping[Key, ServiceFigures]) -> Iterator[Metric]:
    for name, text, value_of in GAUGES:
        family = GaugeMetricFamily(name, text, labels=SERVICE_LABELS)
        for key, figures in services.items():
            value = value_of(figures)
            if value is not None:
                family.add_metric([key.namespace, key.name], float(value))
        yield family


def _bands(services: Mapping[Key, ServiceFigures]) -> Metric:
    family = GaugeMetricFamily(
        "kvis_service_usual",
        "Edges of what a golden metric of this service usually is, learned from its hours under load",
        labels=(*SERVICE_LABELS, "metric", "edge"),
    )
    for key, figures in services.items():
        for name, band in figures.bands.items():
            for edge, value in (("low", band.low), ("high", band.high)):
                family.add_metric([key.namespace, key.name, name, edge], value)
    return family


def _decisions(journal: Journal) -> Metric:
    family = CounterMetricFamily(
        "kvis_decisions", "Decisions taken, by knob and reason", labels=(*SERVICE_LABELS, "knob", "reason")
    )
    for key, counts in journal.decisions.items():
        for (knob, reason), count in counts.items():
            family.add_metric([key.namespace, key.name, knob, reason], count)
    return family


def _loop(sources: Sources) -> Iterator[Metric]:
    journal = sources.journal
    passes = SummaryMetricFamily("kvis_reconcile_seconds", "Duration of a pass over one service")
    passes.add_metric([], count_value=journal.passes, sum_value=journal.pass_seconds)
    yield passes
    errors = CounterMetricFamily("kvis_reconcile_errors", "Failed passes, by kind of error", labels=("kind",))
    for kind, count in journal.errors.items():
        errors.add_metric([kind], count)
    yield errors
    writes = CounterMetricFamily(
        "kvis_api_writes", "Writes sent to the API server", labels=("verb", "resource")
    )
    for (verb, resource), count in sources.writes().items():
        writes.add_metric([verb, resource], count)
    yield writes
    ages = GaugeMetricFamily("kvis_watch_age_seconds", "Since a watch was last answered", labels=("path",))
    for path, age in sources.watch_ages().items():
        ages.add_metric([path], age)
    yield ages
    yield GaugeMetricFamily(
        "kvis_queue_depth", "Services due or being looked at", value=sources.queue_depth()
    )
    oldest = sources.queue_oldest_seconds()
    yield GaugeMetricFamily("kvis_queue_oldest_seconds", "Age of the most overdue service", value=oldest)
    leader = float(sources.is_leader())
    yield GaugeMetricFamily("kvis_leader", "1 while this process holds the lease", value=leader)


def _flag(value: bool | None) -> float | None:
    return None if value is None else float(value)

"""The operator's own metrics: a service's series live and die with it, and the unobserved has no sample."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, generate_latest

from kvis_operator.observe.cluster import Key
from kvis_operator.reconcile.journal import Journal, ServiceFigures
from kvis_operator.serve.metrics import OperatorCollector, Sources
from kvis_operator.signals.bands import Band

KEY = Key("team", "demo")


def text(journal: Journal, writes: Mapping[tuple[str, str], int] | None = None) -> str:
    registry = CollectorRegistry()
    sources = Sources(
        journal=journal,
        writes=lambda: writes or {},
        queue_depth=lambda: 0,
        queue_oldest_seconds=lambda: 0.0,
        watch_ages=lambda: {"/api/v1/pods": 3.0},
        is_leader=lambda: True,
    )
    registry.register(OperatorCollector(sources))
    return generate_latest(registry).decode()


def test_an_observed_zero_is_a_sample_and_the_unobserved_is_none() -> None:
    found = text(Journal(services={KEY: ServiceFigures(kv_usage=0.0)}))
    assert 'kvis_service_kv_usage_ratio{namespace="team",service="demo"} 0.0' in found
    assert "kvis_service_prefix_hit_ratio{" not in found


def test_what_a_metric_usually_is_has_two_edges_and_none_before_it_is_learned() -> None:
    learned = ServiceFigures(bands={"hit_rate": Band(0.3, 0.6, hours=4)})
    found = text(Journal(services={KEY: learned}))
    labels = 'metric="hit_rate",namespace="team",service="demo"'
    assert f'kvis_service_usual{{edge="low",{labels}}} 0.3' in found
    assert f'kvis_service_usual{{edge="high",{labels}}} 0.6' in found
    assert "kvis_service_usual{" not in text(Journal(services={KEY: ServiceFigures()}))


def test_decisions_are_counted_by_knob_and_reason() -> None:
    journal = Journal()
    journal.decided(KEY, "replicas", "Capacity")
    journal.decided(KEY, "replicas", "Capacity")
    line = 'kvis_decisions_total{knob="replicas",namespace="team",reason="Capacity",service="demo"} 2.0'
    assert line in text(journal)


def test_a_service_that_is_gone_leaves_no_series() -> None:
    journal = Journal(services={KEY: ServiceFigures(replicas=2)})
    journal.decided(KEY, "replicas", "Capacity")
    journal.forget(KEY)
    assert "demo" not in text(journal)


def test_writes_are_counted_by_verb_and_resource() -> None:
    found = text(Journal(), {("patch", "deployments"): 4})
    assert 'kvis_api_writes_total{resource="deployments",verb="patch"} 4.0' in found

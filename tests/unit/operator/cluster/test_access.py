"""The access table is as narrow as it claims."""

from __future__ import annotations

from kvis_operator.cluster.access import RULES
from kvis_operator.cluster.resources import CHILDREN, PODS, SERVICES


def test_no_rule_is_a_wildcard_or_reaches_secrets_roles_or_exec() -> None:
    words = {word for rule in RULES for word in (rule.group, rule.resource, *rule.verbs)}
    assert not words & {
        "*",
        "secrets",
        "roles",
        "clusterroles",
        "rolebindings",
        "pods/exec",
        "escalate",
        "bind",
    }


def test_of_a_resource_only_status_and_scale_are_written() -> None:
    writes = {
        rule.resource
        for rule in RULES
        if rule.group == SERVICES.group and set(rule.verbs) & {"patch", "update"}
    }
    assert writes == {"kvinferenceservices/status", "kvinferenceservices/scale"}


def test_every_rule_says_why() -> None:
    assert all(rule.why for rule in RULES)


def test_paths_follow_the_api() -> None:
    assert (
        SERVICES.path("ns", "a", "status")
        == "/apis/kvis.dev/v1alpha1/namespaces/ns/kvinferenceservices/a/status"
    )
    assert PODS.path() == "/api/v1/pods"
    assert CHILDREN[0].path("ns") == "/apis/apps/v1/namespaces/ns/deployments"

from typing import Any

import pytest

from kvis_operator.render.fingerprint import fingerprint
from kvis_operator.render.labels import FINGERPRINT
from kvis_operator.render.objects import render
from service_builders import MODEL, a_profile, a_service, wanted


def _print(profile: dict[str, Any] | None = None, **spec: Any) -> str:
    return fingerprint(a_service(**spec).spec, a_profile(**(profile or {})))


@pytest.mark.parametrize(
    "spec",
    [
        {"kvCache": {"blockSize": 32}},
        {"kvCache": {"dtype": "bfloat16"}},
        {"kvCache": {"memory": "256Mi"}},
        {"kvCache": {"prefixCaching": False}},
        {"batching": {"maxNumSeqs": 8}},
        {"model": {"uri": MODEL, "maxLength": 1024}},
    ],
    ids=str,
)
def test_an_edit_that_reaches_the_engine_replaces_pods(spec: dict[str, Any]) -> None:
    assert _print(**spec) != _print()


@pytest.mark.parametrize(
    "spec",
    [
        {"scaling": {"minReplicas": 2, "maxReplicas": 4}},
        {"slo": {"ttftP95": "1s"}},
        {"workload": {"inputTokens": 100}},
        {"tuning": {"mode": "Off"}},
        {"paused": True},
        {"replicas": 3},
    ],
    ids=str,
)
def test_an_edit_that_acts_on_running_pods_leaves_them_alone(spec: dict[str, Any]) -> None:
    assert _print(**spec) == _print()


def test_a_new_image_replaces_pods() -> None:
    assert _print({"engines": {"torch": {"image": "kvis/runtime:0.2.0"}}}) != _print()


@pytest.mark.parametrize(
    "profile",
    [{"description": "other"}, {"startSeconds": 90}, {"stepTime": {"a": 1, "p": 1, "d": 1, "c": 1}}],
    ids=str,
)
def test_what_a_profile_says_of_deciding_leaves_pods_alone(profile: dict[str, Any]) -> None:
    assert _print(profile) == _print()


def test_writing_a_default_down_leaves_pods_alone() -> None:
    assert _print(kvCache={"dtype": "auto", "prefixCaching": True}) == _print()


def test_deployment_and_pods_carry_it() -> None:
    deployment = render(wanted())[-1]
    marks = [deployment["metadata"], deployment["spec"]["template"]["metadata"]]
    assert {mark["annotations"][FINGERPRINT] for mark in marks} == {_print()}


def test_it_stays_the_same_from_release_to_release() -> None:
    assert _print() == "402ee891901c0eaf"  # a change here restarts the pods of every service at an upgrade

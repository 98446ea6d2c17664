"""Pods are replaced when a wish changes, not when another version renders the same wish differently."""

from __future__ import annotations

from typing import Any

from kube_objects import a_deployment
from kvis_operator.render.labels import FINGERPRINT
from kvis_operator.rollout import template


def keep_template(manifest: dict[str, Any], live: Any) -> Any:
    return template.keep_template(manifest, live, wish=FINGERPRINT)


def rendered(pods: str = "one", wish: str = "wish") -> dict[str, Any]:
    return a_deployment(spec={"template": {"t": pods}}, metadata={"annotations": {FINGERPRINT: wish}})


def running(manifest: dict[str, Any]) -> Any:
    """The Deployment as it lives after `manifest` was applied."""
    return keep_template(manifest, None)


def test_the_same_wish_rendered_differently_keeps_the_running_template() -> None:
    live = running(rendered("one"))
    assert keep_template(rendered("two"), live)["spec"]["template"] == {"t": "one"}


def test_another_wish_gets_the_new_template() -> None:
    live = running(rendered("one", "wish"))
    assert keep_template(rendered("two", "other"), live)["spec"]["template"] == {"t": "two"}


def test_an_edited_template_is_not_kept() -> None:
    live = running(rendered("one"))
    edited = {**live, "spec": {**live["spec"], "template": {"t": "by hand"}}}
    assert keep_template(rendered("one"), edited)["spec"]["template"] == {"t": "one"}


def test_a_kept_template_stays_kept() -> None:
    live = running(rendered("one"))
    kept = keep_template(rendered("two"), live)
    assert keep_template(rendered("two"), kept) == kept

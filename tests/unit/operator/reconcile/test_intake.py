"""Reading a resource: accepted with a plan, or refused with the field and what would work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvis_operator.api.conditions import ConditionType, Reason
from kvis_operator.reconcile.intake import LAST_APPLIED, Accepted, Refused, read
from scenes import a_body
from service_builders import a_table


def refused(**spec: Any) -> Refused:
    subject = read(a_body(**spec), a_table())
    assert isinstance(subject, Refused)
    return subject


def test_a_good_resource_is_accepted_with_its_plan() -> None:
    subject = read(a_body(), a_table())
    assert isinstance(subject, Accepted)
    assert (subject.plan.profile, subject.warning) == ("cpu-small", "")


def test_an_unknown_profile_names_the_known_ones() -> None:
    refusal = refused(profile="h100").refusal
    assert (refusal.condition, refusal.reason) == (ConditionType.ACCEPTED, Reason.PROFILE_NOT_FOUND)
    assert "cpu-small" in refusal.message


def test_a_spec_that_got_past_the_server_is_refused_by_field() -> None:
    refusal = refused(scaling={"minReplicas": 5, "maxReplicas": 2}).refusal
    assert (refusal.reason, "minReplicas" in refusal.message) == (Reason.SPEC_INVALID, True)


def test_i5_a_field_that_was_dropped_on_the_way_is_warned_of() -> None:
    body = a_body()
    sent = json.dumps({"spec": {**body["spec"], "maxNumSeq": 4}})
    body["metadata"]["annotations"] = {LAST_APPLIED: sent}
    subject = read(body, a_table())
    assert isinstance(subject, Accepted)
    assert "maxNumSeq" in subject.warning


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}", '{"spec": 3}', '{"spec": {}}'])
def test_an_annotation_of_any_kind_is_no_problem(text: str) -> None:
    body = a_body()
    body["metadata"]["annotations"] = {LAST_APPLIED: text}
    assert isinstance(read(body, a_table()), Accepted)

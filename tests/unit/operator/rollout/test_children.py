"""Children: what differs is applied, what is not wanted is deleted, what is not ours is named."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_objects import OWNER, an_object
from kvis_operator.rollout.children import STAMP, ChildrenPlan, is_in, plan_children, stamped


def a_rendered(name: str = "demo", **spec: Any) -> dict[str, Any]:
    reference = {"uid": OWNER, "controller": True, "kind": "KVInferenceService", "name": "demo"}
    metadata = {"name": name, "namespace": "team", "ownerReferences": [reference]}
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": spec or {"type": "ClusterIP"},
    }


def live_of(rendered: dict[str, Any], **defaulted: Any) -> dict[str, Any]:
    """The object as the API server stores it, with defaults filled in."""
    manifest = stamped(rendered)
    metadata = {"uid": "live", "resourceVersion": "9", **manifest["metadata"]}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], **defaulted}}


def plan(desired: list[dict[str, Any]], observed: list[dict[str, Any]]) -> ChildrenPlan:
    return plan_children(desired, observed, owner_uid=OWNER)


def test_a_missing_child_is_created() -> None:
    (step,) = plan([a_rendered()], []).apply
    assert step.live is None
    assert step.manifest["metadata"]["annotations"][STAMP]


def test_an_applied_child_is_left_alone_whatever_the_server_filled_in() -> None:
    rendered = a_rendered()
    assert plan([rendered], [live_of(rendered, clusterIP="10.0.0.9", sessionAffinity="None")]).is_empty


def test_a_changed_field_is_applied() -> None:
    live = live_of(a_rendered(type="ClusterIP"))
    assert len(plan([a_rendered(type="NodePort")], [live]).apply) == 1


def test_a_field_that_is_no_longer_rendered_is_applied_away() -> None:
    live = live_of(a_rendered(type="ClusterIP", sessionAffinity="ClientIP"))
    assert len(plan([a_rendered(type="ClusterIP")], [live]).apply) == 1


def test_an_edit_by_hand_is_applied_over() -> None:
    live = live_of(a_rendered(type="ClusterIP"))
    live["spec"]["type"] = "LoadBalancer"
    assert len(plan([a_rendered(type="ClusterIP")], [live]).apply) == 1


def test_an_owned_child_that_is_not_wanted_is_deleted() -> None:
    assert [item["metadata"]["name"] for item in plan([], [an_object(name="old")]).delete] == ["old"]


def test_an_object_under_our_label_that_we_do_not_own_is_never_deleted() -> None:
    assert plan([], [an_object(owner="someone"), an_object(name="bare", owner=None)]).is_empty


def test_a_child_that_is_being_deleted_is_waited_for() -> None:
    going = live_of(a_rendered(type="NodePort"))
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert plan([a_rendered(type="ClusterIP")], [going]).is_empty


def test_what_a_service_of_the_same_name_left_is_waited_for() -> None:
    left = live_of(a_rendered())
    left["metadata"]["ownerReferences"] = [
        {**left["metadata"]["ownerReferences"][0], "uid": "the one before"}
    ]
    assert plan([a_rendered()], [left]).is_empty


def test_what_was_orphaned_under_our_labels_is_adopted() -> None:
    rendered = a_rendered()
    rendered["metadata"]["labels"] = {"kvis.dev/service": "demo"}
    (step,) = plan([rendered], [an_object(owner=None)]).apply
    assert step.live is not None


def test_a_name_that_another_owns_stops_everything_and_is_named() -> None:
    theirs = {"uid": "someone", "controller": True, "kind": "KVInferenceService", "name": "other"}
    live = an_object(metadata={"ownerReferences": [theirs]})
    result = plan([a_rendered(), a_rendered("more")], [live])
    assert [(t.kind, t.name, t.owner) for t in result.taken] == [
        ("Service", "demo", "KVInferenceService/other")
    ]
    assert (result.apply, result.delete) == ((), ())


documents = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(documents)
def test_everything_is_in_itself(document: Any) -> None:
    assert is_in(document, document)


@given(st.dictionaries(st.sampled_from("abc"), documents), st.dictionaries(st.sampled_from("xyz"), documents))
def test_what_the_server_adds_does_not_matter(wanted: dict[str, Any], added: dict[str, Any]) -> None:
    assert is_in(wanted, {**wanted, **added})


@given(st.lists(st.sampled_from(["one", "two", "three"]), unique=True))
def test_a_plan_that_was_carried_out_gives_an_empty_one(names: list[str]) -> None:
    desired = [a_rendered(name) for name in names]
    applied = [live_of(step.manifest) for step in plan(desired, []).apply]
    for item in applied:
        item["metadata"]["annotations"] = stamped(a_rendered(item["metadata"]["name"]))["metadata"][
            "annotations"
        ]
    assert plan(desired, applied).is_empty

"""The view: newer states win, deletions stay deleted, a listing removes what a cut watch has missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kube_objects import an_object
from kvis_operator.observe.cluster import ClusterView, Key


def at(version: int, name: str = "demo", **changes: object) -> dict[str, object]:
    return an_object("Pod", name, metadata={"resourceVersion": str(version), **changes})


def names(view: ClusterView) -> set[str]:
    return {body["metadata"]["name"] for body in view.of_service("Pod", Key("team", "demo"))}


def test_an_older_state_does_not_replace_a_newer_one() -> None:
    view = ClusterView()
    assert view.put("Pod", at(5))
    assert not view.put("Pod", at(4))


def test_a_listing_removes_what_went_away_unseen() -> None:
    view = ClusterView()
    view.put("Pod", at(5, "gone"))
    view.replace_all("Pod", [at(6, "here")], 9)
    assert names(view) == {"here"}


def test_what_a_watch_showed_after_the_listing_stays() -> None:
    view = ClusterView()
    view.put("Pod", at(12, "new"))
    view.replace_all("Pod", [], 9)
    assert names(view) == {"new"}


def test_a_listing_does_not_bring_back_what_was_deleted_since() -> None:
    view = ClusterView()
    view.put("Pod", at(5))
    view.remove("Pod", "uid-Pod-demo")
    view.replace_all("Pod", [at(5)], 6)
    assert names(view) == set()


def test_a_store_that_was_put_back_is_believed_whole() -> None:
    view = ClusterView()
    view.replace_all("Pod", [at(100)], 100)
    view.put("Pod", at(120, "of a future that never was"))
    view.replace_all("Pod", [at(40)], 50)
    assert names(view) == {"demo"}


def test_managed_fields_are_not_kept() -> None:
    view = ClusterView()
    view.put("Pod", at(1, managedFields=[{"manager": "x" * 10_000}]))
    found = view.get("Pod", "uid-Pod-demo")
    assert found is not None
    assert "managedFields" not in found["metadata"]


def test_autoscalers_are_found_by_their_target() -> None:
    view = ClusterView()
    target = {"kind": "KVInferenceService", "name": "demo"}
    view.put(
        "HorizontalPodAutoscaler",
        an_object("HorizontalPodAutoscaler", "hpa", spec={"scaleTargetRef": target}),
    )
    assert view.autoscalers_of("team", "KVInferenceService", "demo") == ["hpa"]
    assert view.autoscalers_of("other", "KVInferenceService", "demo") == []


def test_a_service_is_found_by_its_key() -> None:
    view = ClusterView()
    view.put("KVInferenceService", an_object("KVInferenceService"))
    assert view.service(Key("team", "demo")) is not None
    assert view.service(Key("team", "other")) is None


@given(st.lists(st.integers(1, 50), min_size=1))
def test_the_order_in_which_states_arrive_does_not_matter(versions: list[int]) -> None:
    view = ClusterView()
    for number in versions:
        view.put("Pod", at(number))
    found = view.get("Pod", "uid-Pod-demo")
    assert found is not None
    assert found["metadata"]["resourceVersion"] == str(max(versions))


def test_an_object_that_changes_its_label_is_found_in_one_place_only() -> None:
    view = ClusterView()
    view.put("Pod", at(1))
    view.put("Pod", at(2, labels={"kvis.dev/service": "other"}))
    assert names(view) == set()
    assert len(view.of_service("Pod", Key("team", "other"))) == 1


def test_of_two_services_that_had_one_name_the_later_counts() -> None:
    view = ClusterView()
    view.put("KVInferenceService", an_object("KVInferenceService", metadata={"uid": "first"}))
    view.put("KVInferenceService", an_object("KVInferenceService", metadata={"uid": "second"}))
    found = view.service(Key("team", "demo"))
    assert found is not None
    assert found["metadata"]["uid"] == "second"

"""Victims: exactly the chosen pods become the cheapest to delete."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kube_objects import a_kube_pod
from kvis_operator.rollout.victims import DELETION_COST, FIRST_VICTIM_COST, choose, cost_changes

MARK = {DELETION_COST: str(FIRST_VICTIM_COST)}


def test_victims_get_rising_costs_in_their_order() -> None:
    pods = [a_kube_pod("a"), a_kube_pod("b"), a_kube_pod("c")]
    assert {c.name: c.cost for c in cost_changes(pods, ["c", "a"])} == {"c": "-1000", "a": "-999"}


def test_marked_victims_need_no_change() -> None:
    assert cost_changes([a_kube_pod("a", annotations=MARK)], ["a"]) == ()


def test_a_pod_that_is_no_victim_any_more_loses_its_mark() -> None:
    assert [c.cost for c in cost_changes([a_kube_pod("a", annotations=MARK)], [])] == [None]


def test_a_cost_that_a_person_has_set_is_left_alone() -> None:
    assert cost_changes([a_kube_pod("a", annotations={DELETION_COST: "50"})], []) == ()


def test_a_pod_on_its_way_out_is_left_alone() -> None:
    assert cost_changes([a_kube_pod("a", deleted=True)], ["a"]) == ()


def test_a_choice_that_is_marked_stands() -> None:
    pods = [a_kube_pod("a"), a_kube_pod("b", annotations=MARK), a_kube_pod("c")]
    assert choose(pods, ["a", "c"], 1) == ("b",)


def test_pods_without_a_rank_come_last() -> None:
    assert choose([a_kube_pod("a"), a_kube_pod("b")], ["b"], 2) == ("b", "a")


@given(
    st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdefg")), st.integers(-1, 8)
)
def test_as_many_as_asked_and_only_pods_that_exist(names: list[str], order: list[str], count: int) -> None:
    chosen = choose([a_kube_pod(name) for name in names], order, count)
    assert len(chosen) == max(0, min(count, len(names))) == len(set(chosen))
    assert set(chosen) <= set(names)

"""Who may write meets what was decided: modes, pause, autoscalers, wishes, bounds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvis_operator.reconcile.deliberate import Intent, deliberate, scaling_spec
from kvis_operator.reconcile.world import LoopTimes
from kvis_operator.rollout.replicas import Writer, Written
from kvis_operator.scaling.decision import Decision, Reason
from kvis_operator.scaling.spec import ScalingSpec
from kvis_operator.signals.observation import Observation
from observations import an_observation, blind
from scenes import NOON, a_decision, a_memory, a_scene, accepted

WIDE = {"minReplicas": 1, "maxReplicas": 4}


def intent(
    *,
    decision: Decision | None = None,
    written: Written | None = None,
    seen: Observation | None = None,
    **scene: Any,
) -> Intent:
    memory = a_memory(decision=decision)
    memory.written = written or Written()
    memory.observation = seen
    found = a_scene(**scene)
    return deliberate(found, accepted(found), memory, LoopTimes())


def test_auto_writes_what_was_decided() -> None:
    found = intent(decision=a_decision(1, 3, Reason.CAPACITY), replicas=1, scaling=WIDE)
    assert (found.replicas, found.write) == (3, 3)


def test_auto_writes_nothing_when_the_decision_stands_there() -> None:
    assert intent(decision=a_decision(2, 2), replicas=2, scaling=WIDE).write is None


@pytest.mark.parametrize("mode", ["Auto", "Manual", "Recommend"])
def test_an_absent_field_is_set_once_in_every_mode(mode: str) -> None:
    found = intent(scaling={**WIDE, "mode": mode, "minReplicas": 2})
    assert (found.replicas, found.write) == (2, 2)


@pytest.mark.parametrize("mode", ["Manual", "Recommend"])
def test_the_field_is_followed_where_others_write_it(mode: str) -> None:
    found = intent(decision=a_decision(3, 1), replicas=3, scaling={**WIDE, "mode": mode})
    assert (found.replicas, found.write, found.standing.writer) == (3, None, Writer.FIELD)


def test_s12_an_autoscaler_is_yielded_to() -> None:
    found = intent(decision=a_decision(3, 1), replicas=3, scaling=WIDE, autoscalers=("hpa",))
    assert (found.replicas, found.write) == (3, None)


def test_an_autoscaler_of_the_deployment_is_yielded_to_as_well() -> None:
    found = intent(decision=a_decision(3, 1), replicas=3, scaling=WIDE, child_autoscalers=("hpa",))
    assert (found.write, found.standing.writer) == (None, Writer.FIELD)


def test_paused_writes_nothing_at_all() -> None:
    assert intent(decision=a_decision(1, 3), scaling=WIDE, paused=True).write is None


def test_a_wish_in_auto_is_followed_within_the_bounds() -> None:
    found = intent(decision=a_decision(2, 2), written=Written(value=2), replicas=9, scaling=WIDE)
    assert (found.replicas, found.write, found.standing.writer) == (4, None, Writer.PERSON)


def test_a_wish_whose_time_is_over_is_taken_back() -> None:
    written = Written(value=2, wish=4, wish_since=NOON - 601)
    seen = an_observation(4)
    found = intent(decision=a_decision(2, 2), written=written, seen=seen, replicas=4, scaling=WIDE)
    assert (found.replicas, found.write, found.standing.taken_back) == (2, 2, 4)


def test_a_wish_is_not_taken_back_downward_while_a_pod_cannot_be_read() -> None:
    written = Written(value=2, wish=4, wish_since=NOON - 601)
    for seen in (None, blind(an_observation(4), 1)):
        found = intent(decision=a_decision(2, 2), written=written, seen=seen, replicas=4, scaling=WIDE)
        assert (found.replicas, found.write, found.standing.writer) == (4, None, Writer.PERSON)


def test_a_wish_is_taken_back_upward_even_while_blind() -> None:
    written = Written(value=3, wish=1, wish_since=NOON - 601)
    assert intent(decision=a_decision(3, 3), written=written, replicas=1, scaling=WIDE).write == 3


def test_without_any_decision_the_field_stays() -> None:
    assert intent(replicas=3, scaling=WIDE).write is None


@given(st.integers(0, 12), st.none() | st.integers(0, 12), st.integers(1, 4), st.integers(0, 4))
def test_auto_never_leaves_the_bounds(decided: int, field: int | None, lower: int, more: int) -> None:
    spec = {} if field is None else {"replicas": field}
    bounds = {"minReplicas": lower, "maxReplicas": lower + more}
    found = intent(decision=a_decision(1, decided), scaling=bounds, **spec)
    assert lower <= found.replicas <= lower + more
    assert found.write is None or lower <= found.write <= lower + more


def test_what_the_resource_says_of_scaling_reaches_the_scaler() -> None:
    scene = a_scene(scaling={**WIDE, "spareReplicas": 2, "downMemory": "5m", "targetUtilization": 90})
    spec = scaling_spec(accepted(scene), LoopTimes())
    assert (spec.spare_replicas, spec.down_memory_seconds) == (2, 300.0)
    assert (spec.rho_up, spec.rho_down) == (0.90, 0.85)


def test_what_the_resource_leaves_open_is_the_scalers_default() -> None:
    spec = scaling_spec(accepted(a_scene(scaling=WIDE)), LoopTimes())
    names = ("spare_replicas", "down_memory_seconds", "rho_up", "rho_down")
    defaults = {field.name: field.default for field in fields(ScalingSpec)}
    assert {name: getattr(spec, name) for name in names} == {name: defaults[name] for name in names}


@pytest.mark.parametrize("percent", [10, 100])
def test_the_outermost_utilizations_work(percent: int) -> None:
    scene = a_scene(scaling={**WIDE, "targetUtilization": percent})
    assert scaling_spec(accepted(scene), LoopTimes()).rho_up == percent / 100

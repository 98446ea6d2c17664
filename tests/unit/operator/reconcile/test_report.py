"""Status: complete, stable while nothing changes, and written no more often than it deserves."""

from __future__ import annotations

from typing import Any

import pytest

from kvis_operator.api.conditions import ConditionType, Reason, find_condition
from kvis_operator.api.status import Status
from kvis_operator.reconcile.deliberate import Intent, deliberate
from kvis_operator.reconcile.gather import Scene
from kvis_operator.reconcile.intake import Refused
from kvis_operator.reconcile.report import compose, delay
from kvis_operator.reconcile.world import LoopTimes, Memory
from kvis_operator.scaling.decision import Reason as Why
from observations import an_observation
from scenes import NOON, a_decision, a_memory, a_scene, accepted, ready_pods

TIMES = LoopTimes()


def composed(scene: Scene, memory: Memory, before: Status | None = None) -> Status:
    refusal = scene.subject.refusal if isinstance(scene.subject, Refused) else None
    intent: Intent | None = None if refusal else deliberate(scene, accepted(scene), memory, TIMES)
    return compose(before or Status(), scene, memory, intent=intent, refusal=refusal, fault=None)


def condition(status: Status, type_: ConditionType) -> tuple[str, str]:
    found = find_condition(status.conditions, type_)
    assert found is not None
    return found.status, found.reason


def test_every_known_condition_is_there_from_the_first_pass() -> None:
    status = composed(a_scene(), a_memory())
    assert [c.type for c in status.conditions] == [type_.value for type_ in ConditionType]


def test_ready_when_the_fewest_wanted_pods_serve() -> None:
    scene = a_scene(
        pods=ready_pods(1), replicas=3, scaling={"minReplicas": 1, "maxReplicas": 3, "mode": "Manual"}
    )
    assert condition(composed(scene, a_memory()), ConditionType.READY) == ("True", Reason.READY)


def test_progressing_while_pods_start() -> None:
    assert condition(composed(a_scene(replicas=1), a_memory()), ConditionType.READY) == (
        "False",
        Reason.PROGRESSING,
    )


def test_i11_a_refused_change_is_not_ready_whatever_serves() -> None:
    status = composed(a_scene(pods=ready_pods(2), kvCache={"blockSize": 7}), a_memory())
    assert condition(status, ConditionType.READY) == ("False", Reason.NOT_SIZED)
    assert condition(status, ConditionType.SIZED) == ("False", Reason.BLOCK_SIZE_UNSUPPORTED)


def test_a_model_whose_shape_is_not_known_is_served_with_its_size_unknown() -> None:
    status = composed(a_scene(model={"uri": "pvc://models/own"}), a_memory())
    assert condition(status, ConditionType.ACCEPTED)[0] == "True"
    assert condition(status, ConditionType.SIZED) == ("Unknown", Reason.MODEL_SHAPE_UNKNOWN)


def test_metrics_of_no_ready_pod_are_unknown_not_fresh() -> None:
    assert condition(composed(a_scene(), a_memory()), ConditionType.METRICS_FRESH)[0] == "Unknown"


def test_an_hour_later_an_unchanged_service_has_the_same_status() -> None:
    memory = a_memory(decision=a_decision())
    first = composed(a_scene(pods=ready_pods(1), replicas=1), memory)
    later = composed(a_scene(pods=ready_pods(1), replicas=1, now=NOON + 3600), memory, first)
    assert later.to_dict() == first.to_dict()


def document(**changes: Any) -> dict[str, Any]:
    return {"replicas": 1, "cache": {"kvUsage": 0.1}, "scaler": {"state": {}}, **changes}


@pytest.mark.parametrize(
    ("change", "wait"),
    [
        ({}, None),
        ({"replicas": 2}, TIMES.status),
        ({"cache": {"kvUsage": 0.2}}, TIMES.cache_status),
        ({"cache": {"kvUsage": 0.1, "kvUsageAgeSeconds": 9}}, None),
        ({"scaler": {"state": {"up_at": 1.0}}}, None),
    ],
)
def test_how_long_a_change_waits(change: dict[str, Any], wait: float | None) -> None:
    memory = a_memory()
    memory.status_at = NOON
    assert delay(document(), document(**change), memory, TIMES, now=NOON) == wait


def test_a_change_after_a_quiet_time_is_written_at_once() -> None:
    assert delay(document(), document(replicas=2), a_memory(), TIMES, now=NOON) == 0.0


def test_what_scaling_remembers_is_kept_under_traffic() -> None:
    memory = a_memory(decision=a_decision())
    memory.observation = an_observation(2, rate=4.0)
    memory.status_at = NOON
    assert (
        delay(document(), document(scaler={"state": {"up_at": 1.0}}), memory, TIMES, now=NOON)
        == TIMES.busy_state
    )


def test_s10_a_scale_in_that_waits_for_its_memory_survives_a_restart() -> None:
    memory = a_memory(decision=a_decision(3, 3, Why.HOLD_DEMAND_MEMORY, need_down=1.0))
    memory.status_at = NOON
    assert (
        delay(document(), document(scaler={"state": {"up_at": 1.0}}), memory, TIMES, now=NOON)
        == TIMES.idle_state
    )

import json
from dataclasses import replace
from typing import Any

import pytest

from kvis_operator.scaling.capacity import Mix
from kvis_operator.scaling.demand import DemandRing
from kvis_operator.scaling.flap import FlapGuard
from kvis_operator.scaling.guard import Guard
from kvis_operator.scaling.spread import RateSpread
from kvis_operator.scaling.state import ScalerState
from kvis_operator.scaling.step_time import StepFit
from observations import NOON, Loop, a_spec


def a_full_state() -> ScalerState:
    state = Loop(a_spec(), 2).run(600, rate=20.0).run(3000, rate=3.0).state
    moments = tuple(float(i) for i in range(10))
    return replace(
        state,
        fit=StepFit(moments, (1.5, 2.5, 3.5, 4.5), 5.5, 0.11, 0.22, NOON - 3, NOON - 4),
        guard=Guard(1.0, 2.0, 3.0, 4.0, 1, 0.05, 5.0),
        flap=FlapGuard(1, 6.0, (7.0,), 2, 8.0),
        short_since=NOON - 5,
        alerted_at=NOON - 6,
    )


def test_it_survives_json():
    state = a_full_state()
    assert ScalerState.restore(json.loads(json.dumps(state.to_json()))) == state


def test_it_fits_the_status_after_four_hours():
    state = Loop(a_spec(), 2).run(4 * 3600, rate=7.77777).state
    assert len(json.dumps(state.to_json())) < 4096


def test_nothing_remembered_is_small():
    assert ScalerState.initial().to_json() == {"v": 1}


def test_an_initial_state_may_know_the_replicas():
    assert ScalerState.initial(3) == ScalerState(desired=3)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {},
        [],
        "lost",
        {"v": 2, "desired": 3},
        {"v": 1, "desired": 2.5},
        {"v": 1, "desired": -1},
        {"v": 1, "desired": "3"},
        {"v": 1, "desired": True},
        {"v": 1, "up_at": float("nan")},
        {"v": 1, "mix": [1.0, 2.0]},
        {"v": 1, "mix": [0.0, 2.0, 0.1]},
        {"v": 1, "mix": [1.0, 0.0, 0.1]},
        {"v": 1, "mix": [1.0, 2.0, 1.1]},
        {"v": 1, "mix": [1.0, None, 0.1]},
        {"v": 1, "fit": {"m": [1.0]}},
        {
            "v": 1,
            "fit": {"m": [1.0], "t": [1.0] * 4, "n": 1.0, "r": None, "pr": None, "poor": None, "at": None},
        },
        {
            "v": 1,
            "fit": {
                "m": [1.0] * 10,
                "t": [1.0] * 3,
                "n": 1.0,
                "r": None,
                "pr": None,
                "poor": None,
                "at": None,
            },
        },
        {
            "v": 1,
            "fit": {
                "m": [1.0] * 10,
                "t": [1.0] * 4,
                "n": None,
                "r": None,
                "pr": None,
                "poor": None,
                "at": None,
            },
        },
        {
            "v": 1,
            "fit": {
                "m": [1.0] * 10,
                "t": [1.0] * 4,
                "n": 1.0,
                "r": "x",
                "pr": None,
                "poor": None,
                "at": None,
            },
        },
        {"v": 1, "fit": {"m": [1.0] * 10, "t": [1.0] * 4, "n": 1.0}},
        {"v": 1, "demand": {"w": 0, "first": 1, "values": []}},
        {"v": 1, "demand": {"w": 60, "first": None, "values": []}},
        {"v": 1, "demand": {"w": 60, "first": 1, "values": ["x"]}},
        {"v": 1, "guard": [1.0]},
        {"v": 1, "flap": [2, None, [], 1, None]},
        {"v": 1, "flap": [1, None, [], 0, None]},
        {"v": 1, "flap": [1, None, [], 1.5, None]},
    ],
)
def test_what_cannot_be_read_is_unknown(raw: Any):
    assert ScalerState.restore(raw) == ScalerState.initial()


def test_partial_states_are_read():
    raw = {
        "v": 1,
        "desired": 4,
        "demand": {"w": 60.0, "first": 10, "values": [1.0, None]},
        "guard": [None] * 7,
    }
    state = ScalerState.restore(raw)
    assert (state.desired, state.demand) == (4, DemandRing(60.0, 10, (1.0, None)))
    assert state.guard == Guard()


SPREAD = {
    "m": [1.0, 2.0],
    "at": 9.0,
    "s": 0.1,
    "w": 2.0,
    "r": 3.5,
    "n": 2.5,
    "c": 1.5,
    "calm": 7.0,
    "new": True,
    "since": 3.0,
}


def test_the_layout_written_by_this_version_is_read_field_by_field():
    fit = {"m": [0.5] * 10, "t": [1.0, 2.0, 3.0, 4.0], "n": 7.0, "r": 0.1, "pr": 0.2, "poor": 8.0, "at": 9.0}
    raw = {"v": 1, "fit": fit, "mix": [1.0, 1.0, 1.0], "flap": [-1, 2.0, [3.0], 4, 5.0], "desired": 0}
    raw |= {"mix_seconds": 300.0, "spread": SPREAD}
    state = ScalerState.restore(raw)
    assert state.fit == StepFit((0.5,) * 10, (1.0, 2.0, 3.0, 4.0), 7.0, 0.1, 0.2, 8.0, 9.0)
    assert state.flap == FlapGuard(-1, 2.0, (3.0,), 4, 5.0)
    assert (state.mix, state.mix_seconds, state.desired) == (Mix(1.0, 1.0, 1.0), 300.0, 0)
    assert state.spread == RateSpread((1.0, 2.0), 9.0, 0.1, 2.0, 3.5, 2.5, 1.5, 7.0, True, 3.0)
    assert state.to_json() == raw


@pytest.mark.parametrize(
    "wrong",
    [{"w": -3.0}, {"s": -1.0}, {"r": -1.0}, {"n": -1.0}, {"c": -1.0}, {"calm": -1.0}, {"m": [1.0, -2.0]}],
)
def test_a_spread_with_something_negative_is_not_read(wrong):
    assert ScalerState.restore({"v": 1, "desired": 4, "spread": SPREAD | wrong}) == ScalerState.initial()


@pytest.mark.parametrize("new", [None, 1, "yes"])
def test_a_spread_that_does_not_say_whether_its_load_is_new_is_not_read(new):
    assert ScalerState.restore({"v": 1, "spread": SPREAD | {"new": new}}) == ScalerState.initial()


def test_a_spread_written_before_it_counted_the_calm_is_read_without_any():
    older = {name: value for name, value in SPREAD.items() if name not in ("calm", "new")}
    assert ScalerState.restore({"v": 1, "spread": older}).spread == RateSpread(
        (1.0, 2.0), 9.0, 0.1, 2.0, 3.5, 2.5, 1.5, since=3.0
    )


@pytest.mark.parametrize("older", [{}, {"r": 3.5}])
def test_a_spread_written_before_it_had_this_long_mean_is_read_without_one(older):
    spread = {"m": [1.0, 2.0], "at": 9.0, "s": 0.1, "w": 2.0, "since": 3.0} | older
    assert ScalerState.restore({"v": 1, "spread": spread}).spread == RateSpread(
        (1.0, 2.0), 9.0, 0.1, 2.0, since=3.0
    )


def test_following_the_replicas_decided_here_changes_nothing():
    state = a_full_state()
    assert state.desired is not None
    assert state.following(state.desired) is state


def test_following_somebody_elses_replicas_forgets_moves_that_never_happened():
    state = replace(
        ScalerState.initial(3),
        up_at=NOON,
        down_at=NOON,
        step_at=NOON,
        step_base=2,
        flap=FlapGuard(1, None, (), 2, 0.0),
    )
    followed = state.following(7)
    assert (followed.desired, followed.up_at, followed.down_at, followed.step_at, followed.flap) == (
        7,
        None,
        None,
        None,
        FlapGuard(),
    )

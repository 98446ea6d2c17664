"""What the policy remembers from tick to tick, and how far it goes down at once."""

from dataclasses import replace

import pytest

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.spec import HitSharing
from kvis_operator.scaling.step_time import predict
from kvis_operator.signals.observation import StepWindow
from observations import NOON, TICK, Loop, a_spec, an_observation, pods

HOUR = 3600.0


class TestRemembering:
    def test_decisions_follow_the_measured_speed_and_not_the_profile(self):
        loop = Loop(a_spec(), 2)
        for i in range(40):
            window = StepWindow(200.0, 0.0, 10.0 * (i % 7), 5.0 + i % 5, 3000.0 * (1 + i % 3))
            slow = replace(window, seconds_per_step=1.5 * predict(a_spec().prior, window))
            decision = loop.tick(rate=4.0, pods=pods(2, steps=slow))
        assert decision.numbers["step_a"] == pytest.approx(1.5 * a_spec().prior.a, rel=0.05)
        assert decision.numbers["replica_rate"] < 4.0

    def test_without_the_fit_the_profile_stands(self):
        window = StepWindow(200.0, 0.5, 10.0, 5.0, 3000.0)
        loop = Loop(a_spec(features=a_spec().features - {"fit"}), 2)
        for _ in range(10):
            decision = loop.tick(rate=4.0, pods=pods(2, steps=window))
        assert decision.numbers["step_a"] == a_spec().prior.a

    def test_growing_after_shrinking_counts_as_a_reversal(self):
        loop = Loop(a_spec(), 3).run(HOUR, rate=3.0, kv=0.05)
        assert (loop.replicas, loop.state.flap.direction) == (1, -1)
        loop.tick(rate=9.0, kv=0.05)
        assert (loop.state.flap.direction, loop.state.flap.factor) == (1, 1)
        assert loop.state.flap.reversals == (loop.now - TICK,)

    def test_nothing_shrinks_soon_after_an_alert(self):
        calm = Loop(a_spec(), 4).run(HOUR, rate=3.0)
        state = replace(calm.state, desired=4, down_at=None)
        obs = an_observation(4, rate=3.0, at=NOON + HOUR)
        _, alerted = decide(a_spec(alert_floor=4), obs, state, now=NOON + HOUR)
        later = NOON + HOUR + TICK
        decision, _ = decide(a_spec(), an_observation(4, rate=3.0, at=later), alerted, now=later)
        assert (decision.replicas, decision.reason) == (4, Reason.COOLDOWN_AFTER_UP)
        assert decision.held_until == NOON + HOUR + 300.0


class TestHowFarDown:
    def test_no_further_than_the_usual_peak_allows(self):
        loop = Loop(a_spec(), 10).run(2 * HOUR, rate=31.4, kv=0.05)
        assert [(d.current, d.replicas) for d in loop.moves] == [(10, 9)]

    def test_no_further_than_the_memory_allows(self):
        loop = Loop(a_spec(), 15).run(1800, rate=58.0, kv=0.05)
        assert loop.replicas == 15
        loop.run(400, rate=50.0, kv=0.05).run(400, rate=20.0, kv=0.05)
        assert (loop.moves[0].current, loop.moves[0].replicas) == (15, 13)

    def test_not_below_the_minimum(self):
        loop = Loop(a_spec(min_replicas=9), 10).run(HOUR, rate=1.0, kv=0.05)
        assert [(d.current, d.replicas) for d in loop.moves] == [(10, 9)]

    def test_hits_that_leave_with_the_replica_are_charged_before(self):
        shared = {"hit_sharing": HitSharing.PREFIX_AWARE}
        load = {"rate": 4.8, "hit_rate": 0.9, "kv": 0.05}
        kept = Loop(a_spec(**shared), 2).run(2 * HOUR, **load)
        assert (kept.replicas, kept.decisions[-1].reason) == (2, Reason.HOLD_CONSOLIDATION)
        hopeful = a_spec(**shared, features=a_spec().features - {"pessimistic_hit"})
        assert Loop(hopeful, 2).run(2 * HOUR, **load).replicas == 1

"""The way down: what must hold before a replica is taken away, and how many go at once."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from kvis_operator.scaling.decide import decide
from kvis_operator.scaling.decision import Reason
from kvis_operator.scaling.spec import HitSharing
from kvis_operator.scaling.spread import RateSpread
from observations import NOON, TICK, Loop, a_spec, an_observation, blind, pods

HOUR = 3600.0


def settled(replicas: int, **observation: Any) -> Loop:
    """A loop whose demand memory is full of the given load."""
    return Loop(a_spec(), replicas).run(HOUR, **observation)


class TestDown:
    def test_after_the_memory_and_not_before(self):
        loop = settled(5, rate=18.0, kv=0.05)
        loop.run(600, rate=3.0, kv=0.05)
        assert loop.replicas == 5
        assert loop.decisions[-1].reason is Reason.HOLD_DEMAND_MEMORY
        loop.run(HOUR, rate=3.0, kv=0.05)
        assert loop.replicas == 1
        assert loop.moves[-1].reason is Reason.CONSOLIDATE

    def test_the_hold_says_until_when(self):
        loop = settled(5, rate=18.0)
        decision = loop.tick(rate=3.0)
        assert decision.held_until == pytest.approx(loop.now - TICK + 600, abs=61)

    def test_one_by_one_a_minute_apart_naming_victims(self):
        loop = settled(5, rate=18.0, kv=0.05).run(HOUR, rate=3.0, kv=0.05)
        assert [(d.current, d.replicas) for d in loop.moves] == [(5, 4), (4, 3), (3, 2), (2, 1)]
        assert all(len(d.victims) == 1 for d in loop.moves)
        times = [NOON + i * TICK for i, d in enumerate(loop.decisions) if d.replicas < d.current]
        assert min(b - a for a, b in pairwise(times)) >= 60

    def test_a_fifth_at_a_time_on_a_large_fleet(self):
        loop = Loop(a_spec(), 15).run(1200, rate=55.0).run(HOUR, rate=10.0)
        assert (loop.moves[0].current, loop.moves[0].replicas) == (15, 12)
        assert len(loop.moves[0].victims) == 3

    def test_not_below_what_the_memory_holds(self):
        loop = settled(6, rate=18.0, kv=0.05).run(300, rate=9.0, kv=0.05).run(240, rate=3.0, kv=0.05)
        assert loop.replicas == 5
        assert loop.run(300, rate=3.0, kv=0.05).replicas == 3

    def test_not_below_what_carries_the_usual_spread_of_the_rate(self):
        loop = Loop(a_spec(), 3)
        for _ in range(60):
            loop.run(120, rate=5.0, kv=0.05).run(120, rate=7.0, kv=0.05)
        assert loop.replicas == 3
        assert loop.decisions[-1].reason is Reason.HOLD_USUAL_PEAK
        assert loop.run(10 * HOUR, rate=6.0, kv=0.05).replicas == 2

    @pytest.mark.parametrize(("served", "replicas"), [(90.0, 2), (1200.0, 1)])
    def test_a_new_service_waits_until_it_knows_how_its_load_spreads(self, served, replicas):
        loop = Loop(a_spec(), 2)
        for i in range(80):
            loop.tick(rate=3.2, pods=pods(2, kv_usage=0.05, age_seconds=served + i * TICK))
        assert loop.replicas == replicas
        reason = loop.decisions[-1].reason
        assert (reason is Reason.HOLD_USUAL_PEAK) is (replicas == 2)

    def test_not_while_a_replica_is_starting(self):
        loop = settled(5, rate=3.0, ready=4)
        assert loop.replicas == 5
        assert loop.decisions[-1].reason is Reason.HOLD_PENDING

    def test_not_soon_after_growing(self):
        loop = Loop(a_spec(down_memory_seconds=30.0), 2)
        loop.tick(rate=20.0)
        loop.run(225, rate=3.0)
        assert loop.replicas == 5
        assert loop.decisions[-1].reason is Reason.COOLDOWN_AFTER_UP
        assert loop.run(60, rate=3.0).replicas < 5

    def test_five_minutes_after_growing_by_default(self):
        spec = a_spec(start_seconds=30.0)
        state = replace(settled(5, rate=3.0).state, desired=5)
        for since, allowed in ((299.0, False), (300.0, True)):
            obs = an_observation(5, rate=3.0, at=NOON + HOUR)
            decision, _ = decide(
                spec, obs, replace(state, up_at=NOON + HOUR - since, down_at=None), now=NOON + HOUR
            )
            assert (decision.replicas < 5) is allowed

    def test_not_while_an_alert_holds(self):
        loop = Loop(a_spec(alert_floor=2), 5).run(2 * HOUR, rate=3.0)
        assert loop.replicas == 5
        assert loop.decisions[-1].reason is Reason.HOLD_ALERT

    def test_not_when_fewer_would_lose_the_prefixes_they_need(self):
        aware = Loop(a_spec(hit_sharing=HitSharing.PREFIX_AWARE), 3).run(2 * HOUR, rate=8.7, hit_rate=0.6)
        unaware = Loop(a_spec(), 3).run(2 * HOUR, rate=8.7, hit_rate=0.6)
        assert (aware.replicas, unaware.replicas) == (3, 2)
        assert aware.decisions[-1].reason is Reason.HOLD_CONSOLIDATION

    def test_not_while_one_ready_pod_is_unseen(self):
        spec, state = a_spec(), settled(4, rate=3.0).state
        state = replace(state, desired=4, down_at=None)
        obs = an_observation(4, rate=3.0, at=NOON + HOUR)
        assert decide(spec, obs, state, now=NOON + HOUR)[0].replicas == 3
        decision = decide(spec, blind(obs, 1), state, now=NOON + HOUR)[0]
        assert (decision.replicas, decision.reason) == (4, Reason.HOLD_METRICS_STALE)

    def test_the_flap_guard_lengthens_the_memory(self):
        loop = settled(5, rate=18.0)
        loop.state = replace(loop.state, flap=replace(loop.state.flap, factor=2, eased_at=loop.now))
        loop.run(900, rate=3.0)
        assert loop.replicas == 5
        assert loop.decisions[-1].reason is Reason.FLAP_GUARD
        assert "FlapGuard" in loop.decisions[-1].conditions
        assert loop.run(900, rate=3.0).replicas < 5

    def test_a_memory_that_the_user_gave_is_not_lengthened_by_the_flap_guard(self):
        loop = Loop(a_spec(down_memory_seconds=600.0), 5).run(HOUR, rate=18.0)
        loop.state = replace(loop.state, flap=replace(loop.state.flap, factor=8, eased_at=loop.now))
        loop.run(900, rate=3.0)
        assert loop.replicas < 5
        assert loop.decisions[-1].numbers["memory_seconds"] == 600.0
        assert not any("FlapGuard" in decision.conditions for decision in loop.decisions)

    def test_the_flap_guard_remembers_for_four_hours_at_most(self):
        loop = settled(5, rate=18.0)
        loop.state = replace(loop.state, flap=replace(loop.state.flap, factor=64, eased_at=loop.now))
        assert loop.tick(rate=18.0).numbers["memory_seconds"] == 4 * HOUR

    @pytest.mark.parametrize(("memory", "replicas"), [(600.0, 3), (1800.0, 3), (120.0, 2)])
    def test_a_given_memory_shorter_than_usual_counts_lower_usual_peaks(self, memory, replicas):
        loop = Loop(a_spec(down_memory_seconds=memory), 3)
        for _ in range(60):
            loop.run(120, rate=5.0, kv=0.05).run(120, rate=7.0, kv=0.05)
        assert loop.replicas == replicas

    def test_not_while_the_usual_peak_is_unknown(self):
        loop = settled(5, rate=3.0, kv=0.05)
        unseen = replace(loop.state, desired=5, down_at=None, spread=RateSpread(at=loop.now))
        obs = an_observation(5, rate=3.0, kv=0.05, at=loop.now)
        assert decide(a_spec(), obs, unseen, now=loop.now)[0].reason is Reason.HOLD_METRICS_STALE

    def test_not_within_a_minute_of_the_last_and_says_until_when(self):
        loop = settled(5, rate=18.0, kv=0.05)
        while not loop.moves:
            loop.tick(rate=3.0, kv=0.05)
        shrunk_at = loop.now - TICK
        decision = loop.tick(rate=3.0, kv=0.05)
        assert (decision.reason, decision.held_until) == (Reason.COOLDOWN_AFTER_DOWN, shrunk_at + 60.0)
        loop.run(60 - 2 * TICK, rate=3.0, kv=0.05)
        assert loop.tick(rate=3.0, kv=0.05).reason is Reason.CONSOLIDATE

    def test_the_hold_ends_when_the_newest_need_of_all_replicas_is_forgotten(self):
        loop = settled(5, rate=18.0, kv=0.05).run(300, rate=9.0, kv=0.05)
        decision = loop.tick(rate=3.0, kv=0.05)
        assert decision.held_until is not None
        while not loop.moves:
            loop.tick(rate=3.0, kv=0.05)
        assert loop.now - TICK == pytest.approx(decision.held_until, abs=TICK)


class TestSpareReplicas:
    def test_they_are_added_and_kept_without_any_load(self):
        loop = Loop(a_spec(spare_replicas=3.0), 1).run(2 * HOUR, rate=0.0, kv=0.0)
        assert loop.replicas == 3

    def test_they_never_lead_beyond_the_maximum(self):
        loop = Loop(a_spec(spare_replicas=50.0, max_replicas=4), 1).run(300, rate=3.0)
        assert (loop.replicas, loop.moves[0].reason) == (4, Reason.LIMITED)

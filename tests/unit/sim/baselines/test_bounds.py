"""The two yardsticks that are no rules: a fixed count and the clairvoyant fluid bound."""

from hypothesis import given
from hypothesis import strategies as st

from kvis_sim.baselines.clairvoyant import replica_hours, replicas_over_time
from kvis_sim.baselines.reading import FleetReading
from kvis_sim.baselines.static import Static


def test_static_stays_within_bounds() -> None:
    reading = FleetReading(at=0, desired=3, pods=(), kv_capacity_tokens=1, max_replicas=8)
    assert Static(12).step(reading) == 8


def test_clairvoyant_holds_what_the_next_start_time_needs() -> None:
    held = replicas_over_time([0.5, 0.5, 0.5, 2.2, 0.5, 0.5], slot_seconds=60, start_seconds=120)
    assert held == [1, 3, 3, 3, 1, 1]


def test_clairvoyant_cost_is_the_integral() -> None:
    assert replica_hours([2.0] * 60, slot_seconds=60, start_seconds=300) == 2.0


@given(st.lists(st.floats(0, 40), min_size=1, max_size=50), st.floats(0, 600), st.floats(0, 600))
def test_longer_starts_never_cost_less(load: list[float], first: float, second: float) -> None:
    short, long = sorted((first, second))
    assert replica_hours(load, slot_seconds=60, start_seconds=short) <= replica_hours(
        load, slot_seconds=60, start_seconds=long
    )

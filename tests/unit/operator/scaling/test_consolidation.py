from typing import Any

import pytest

from kvis_operator.scaling.capacity import Mix, Replica
from kvis_operator.scaling.consolidation import carries, hit_rate_after
from kvis_operator.scaling.spec import HitSharing
from observations import PRIOR

REPLICA = Replica(PRIOR, 480_000.0, 256, 0.1)
MIX = Mix(1155.0, 211.0, 0.3)


def carried(replicas: int = 5, **changes: Any) -> bool:
    defaults: dict[str, Any] = {
        "instead_of": 6,
        "sharing": HitSharing.UNAWARE,
        "rate": 18.0,
        "kv_tokens": 500_000.0,
        "rho_down": 0.75,
        "mix": MIX,
        "replica": REPLICA,
    }
    values = defaults | changes
    return carries(values.pop("replica"), values.pop("mix"), replicas=replicas, **values)


def test_five_replicas_carry_eighteen_requests_a_second():
    assert carried(rate=18.3)
    assert not carried(rate=18.5)


def test_the_memory_must_fit_at_three_quarters():
    assert carried(kv_tokens=0.75 * 480_000 * 5)
    assert not carried(kv_tokens=0.75 * 480_000 * 5 + 1)


def test_losing_prefixes_is_assumed_before_the_fact():
    assert carried(rate=17.9)
    assert not carried(rate=17.9, sharing=HitSharing.PREFIX_AWARE)


def test_no_load_is_carried_without_knowing_its_shape():
    assert carried(rate=0.0, mix=None, kv_tokens=0.0)
    assert not carried(rate=0.1, mix=None, kv_tokens=0.0)


def test_no_number_of_replicas_carries_an_impossible_objective():
    assert not carried(rate=0.1, replica=Replica(PRIOR, 480_000.0, 256, 0.01))


def test_the_predicted_latency_must_keep_its_distance():
    assert carried(rate=5 * 4.90, rho_down=1.2)
    assert not carried(rate=5 * 4.93, rho_down=1.2)


def test_without_an_objective_only_the_rate_counts():
    replica = Replica(PRIOR, 480_000.0, 256, None)
    assert carried(rate=5 * 0.75 * 6.01, replica=replica)
    assert not carried(rate=5 * 0.75 * 6.03, replica=replica)


@pytest.mark.parametrize(
    ("sharing", "after"),
    [(HitSharing.UNAWARE, 0.3), (HitSharing.SHARED, 0.3), (HitSharing.PREFIX_AWARE, 0.25)],
)
def test_hit_rate_after_a_scale_down(sharing, after):
    assert hit_rate_after(0.3, 5, 6, sharing) == pytest.approx(after)

"""Every family can be built, swept along its axis, and refuses parameters it does not have."""

import pytest

from kvis_sim.baselines.rival import Bounds
from kvis_sim.bench.methods import FAMILIES, Method, build_rival

BOUNDS = Bounds(initial_replicas=2, min_replicas=1, max_replicas=16, kv_capacity_tokens=480_000)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_builds_at_every_value_of_its_axis(name: str) -> None:
    family = FAMILIES[name]
    for value in family.values:
        assert build_rival(Method(name).at(**{family.axis: value}), BOUNDS).interval > 0.0


def test_label_names_only_what_differs_from_the_defaults() -> None:
    assert Method("hpa-inflight").at(target=16.0, down=1800.0).label == "hpa-inflight(down=1800,target=16)"
    assert Method("ray").label == "ray"


@pytest.mark.parametrize(
    ("method", "message"), [(Method("nobody"), "unknown method"), (Method("ray").at(x=1.0), "no parameter")]
)
def test_unknown_names_are_refused(method: Method, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_rival(method, BOUNDS)

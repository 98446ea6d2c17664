"""The parameters by which the benchmark makes the shipped scaler more or less generous."""

import pytest

from kvis_sim.bench.methods import OURS
from kvis_sim.bench.plan import MARGIN
from kvis_sim.bench.runs import our_spec
from kvis_sim.scenarios.catalogue import recipe_named

RAMP = recipe_named("ramp")


def test_spare_replicas_leave_the_utilisation_alone() -> None:
    spec = our_spec(OURS.at(spare=2.5), RAMP)
    assert (spec.spare_replicas, spec.rho_up, spec.rho_down) == (2.5, 0.85, 0.80)


def test_another_utilisation_keeps_its_distance_to_the_one_for_shrinking() -> None:
    spec = our_spec(OURS.at(rho=0.9), RAMP)
    assert (spec.spare_replicas, spec.rho_up, spec.rho_down) == pytest.approx((0.0, 0.90, 0.85))


def test_every_margin_of_the_sweeps_is_one_the_scaler_accepts_dearest_first() -> None:
    for sweep in MARGIN:
        specs = [our_spec(sweep.at(index), RAMP) for index in range(len(sweep.values))]
        generosity = [(spec.spare_replicas, -spec.rho_up) for spec in specs]
        assert generosity == sorted(generosity, reverse=True)
        assert len(set(generosity)) == len(generosity)


def test_no_spare_replicas_are_the_default() -> None:
    assert our_spec(OURS.at(spare=0.0), RAMP) == our_spec(OURS, RAMP)


def test_an_unknown_parameter_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="kvis has no parameter 'target'; it has: memory, prior, rho, spare"):
        our_spec(OURS.at(target=0.9), RAMP)

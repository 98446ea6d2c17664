import math
from dataclasses import fields

import pytest

from kvis_operator.scaling.spec import ALL_FEATURES, HitSharing, ScalingSpec, StepTime
from observations import a_spec

FINITE = "a finite number > 0"
OPTIONAL = "a finite number > 0, or None for no objective or hint"
MEMORY = ">= 0, or None for the default"
MARGINS = "within (0, rho_up 0.85], and rho_up <= 1"
COEFFICIENTS = "finite coefficients >= 0, not all zero"


@pytest.mark.parametrize(
    ("field", "value", "works"),
    [
        ("min_replicas", 0, ">= 1: nothing wakes a service from zero"),
        ("max_num_seqs", 0, ">= 1"),
        ("kv_capacity_tokens", 0.0, FINITE),
        ("kv_capacity_tokens", math.nan, FINITE),
        ("start_seconds", 0.0, FINITE),
        ("start_seconds", math.inf, FINITE),
        ("tick_seconds", -1.0, FINITE),
        ("ttft_slo_seconds", 0.0, OPTIONAL),
        ("tpot_slo_seconds", math.nan, OPTIONAL),
        ("input_tokens_hint", 0.0, OPTIONAL),
        ("output_tokens_hint", -1.0, OPTIONAL),
        ("down_memory_seconds", -1.0, MEMORY),
        ("down_memory_seconds", math.nan, MEMORY),
        ("down_memory_seconds", math.inf, MEMORY),
        ("spare_replicas", -0.5, "a finite number >= 0"),
        ("spare_replicas", math.nan, "a finite number >= 0"),
        ("spare_replicas", math.inf, "a finite number >= 0"),
        ("rho_down", 0.0, MARGINS),
        ("rho_down", 0.9, MARGINS),
        ("prior", StepTime(0.0, 0.0, 0.0, 0.0), COEFFICIENTS),
        ("prior", StepTime(-0.1, 0.0, 0.0, 0.0), COEFFICIENTS),
        ("prior", StepTime(0.1, 0.0, -0.1, 0.0), COEFFICIENTS),
        ("prior", StepTime(math.nan, 0.0, 0.0, 0.0), COEFFICIENTS),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_its_name_and_what_would(field, value, works):
    with pytest.raises(ValueError) as refused:
        a_spec(**{field: value})
    assert str(refused.value) == f"ScalingSpec.{field} is {value}; it must be {works}"


def test_a_margin_above_everything_is_refused():
    with pytest.raises(ValueError, match=r"rho_up 1\.1\], and rho_up <= 1"):
        a_spec(rho_up=1.1)


def test_what_a_spec_leaves_open_has_these_defaults():
    given = ("min_replicas", "max_replicas", "prior", "kv_capacity_tokens", "max_num_seqs")
    spec = ScalingSpec(1, 2, StepTime(0.0, 0.0, 1.0, 0.0), 1000.0, 8)
    assert {f.name: getattr(spec, f.name) for f in fields(spec) if f.name not in given} == {
        "ttft_slo_seconds": None, "tpot_slo_seconds": None, "input_tokens_hint": None, "output_tokens_hint": None,
        "start_seconds": 120.0, "tick_seconds": 15.0, "down_memory_seconds": None,
        "spare_replicas": 0.0, "rho_up": 0.85, "rho_down": 0.80,
        "hit_sharing": HitSharing.UNAWARE, "gpu_budget_replicas": None, "alert_floor": None, "features": ALL_FEATURES,
    }  # fmt: skip


def test_step_time_terms_are_in_the_order_of_the_formula():
    assert StepTime(1.0, 2.0, 3.0, 4.0).terms == (1.0, 2.0, 3.0, 4.0)


def test_bounds_that_contradict_each_other_say_both_numbers():
    with pytest.raises(ValueError, match="max_replicas is 2; it must be >= min_replicas 3"):
        a_spec(min_replicas=3, max_replicas=2)


def test_an_explicit_zero_memory_is_honoured():
    assert a_spec(down_memory_seconds=0.0).down_memory_seconds == 0.0


def test_the_edges_of_what_is_allowed_are_kept_as_given():
    edges = {
        "min_replicas": 1, "max_replicas": 1, "rho_up": 1.0, "rho_down": 1.0, "max_num_seqs": 1,
        "prior": StepTime(0.0, 0.0, 1.0, 0.0),
    }  # fmt: skip
    spec = a_spec(**edges)
    assert {name: getattr(spec, name) for name in edges} == edges

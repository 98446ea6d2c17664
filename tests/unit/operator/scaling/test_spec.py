import math

import pytest

from kvis_operator.scaling.spec import StepTime
from observations import a_spec


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("min_replicas", 0),
        ("max_replicas", 0),
        ("max_num_seqs", 0),
        ("kv_capacity_tokens", 0.0),
        ("kv_capacity_tokens", math.nan),
        ("start_seconds", 0.0),
        ("start_seconds", math.inf),
        ("tick_seconds", -1.0),
        ("ttft_slo_seconds", 0.0),
        ("tpot_slo_seconds", math.nan),
        ("input_tokens_hint", 0.0),
        ("output_tokens_hint", -1.0),
        ("down_memory_seconds", -1.0),
        ("down_memory_seconds", math.nan),
        ("rho_down", 0.0),
        ("rho_down", 0.9),
        ("rho_up", 1.1),
        ("prior", StepTime(0.0, 0.0, 0.0, 0.0)),
        ("prior", StepTime(-0.1, 0.0, 0.0, 0.0)),
        ("prior", StepTime(math.nan, 0.0, 0.0, 0.0)),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_its_name(field, value):
    with pytest.raises(ValueError, match=r"ScalingSpec\.\w+ is .*; it must be"):
        a_spec(**{field: value})


def test_bounds_that_contradict_each_other_say_both_numbers():
    with pytest.raises(ValueError, match="max_replicas is 2; it must be >= min_replicas 3"):
        a_spec(min_replicas=3, max_replicas=2)


def test_an_explicit_zero_memory_is_honoured():
    assert a_spec(down_memory_seconds=0.0).down_memory_seconds == 0.0


def test_edges_that_work():
    a_spec(
        min_replicas=1,
        max_replicas=1,
        rho_up=1.0,
        rho_down=1.0,
        max_num_seqs=1,
        prior=StepTime(0.0, 0.0, 1.0, 0.0),
    )

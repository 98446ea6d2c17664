from dataclasses import replace

import pytest

from kvis_operator.scaling.capacity import (
    Mix,
    Replica,
    capacity,
    decode_step,
    itl,
    itl_at,
    largest_batch,
    rate,
)
from kvis_operator.scaling.spec import StepTime
from observations import PRIOR

REPLICA = Replica(PRIOR, 480_000.0, 256, 0.1)
MIX = Mix(1155.0, 211.0, 0.3)


def test_worked_example_to_four_digits():
    best = capacity(REPLICA, MIX)
    assert (best.batch, best.batch_max, best.feasible) == (93, 256, True)
    assert best.itl_seconds == pytest.approx(0.08982, rel=1e-4)
    assert best.rate == pytest.approx(4.907, rel=1e-4)
    assert 0.85 * best.rate == pytest.approx(4.171, rel=1e-4)
    assert 0.75 * best.rate == pytest.approx(3.680, rel=1e-4)


def test_worked_example_terms():
    assert MIX.uncached_tokens == pytest.approx(808.5)
    assert MIX.mean_context == 1260.5
    assert decode_step(PRIOR, MIX, 93) == pytest.approx(0.05632, rel=1e-3)
    assert itl(PRIOR, MIX, 94) == pytest.approx(0.09051, rel=1e-3)
    assert rate(PRIOR, MIX, 93) * MIX.uncached_tokens * PRIOR.p == pytest.approx(0.3729, rel=1e-3)
    assert itl(PRIOR, MIX, 1) == pytest.approx(0.02669, rel=1e-3)


@pytest.mark.parametrize(("batch", "per_second"), [(1, 0.1776), (256, 6.016), (10_000_000, 6.906)])
def test_rate_grows_with_batch_up_to_its_ceiling(batch, per_second):
    assert rate(PRIOR, MIX, batch) == pytest.approx(per_second, rel=1e-3)


def test_worked_example_without_hits():
    best = capacity(REPLICA, replace(MIX, hit_rate=0.0))
    assert best.batch == 76
    assert best.itl_seconds == pytest.approx(0.08989, rel=1e-3)
    assert best.rate == pytest.approx(4.007, rel=1e-3)


def test_littles_law_holds():
    best = capacity(REPLICA, MIX)
    assert best.rate * MIX.output_tokens * best.itl_seconds == pytest.approx(best.batch)


def test_without_an_objective_memory_and_the_ceiling_bound_the_batch():
    assert capacity(replace(REPLICA, tpot_slo_seconds=None), MIX).batch == 256
    assert capacity(replace(REPLICA, tpot_slo_seconds=None, max_num_seqs=1000), MIX).batch == 323


def test_memory_bounds_the_batch_at_92_percent():
    assert largest_batch(replace(REPLICA, kv_tokens=10 * 1366.0), MIX) == 9


def test_a_step_that_always_misses_the_objective_is_infeasible():
    best = capacity(replace(REPLICA, tpot_slo_seconds=0.029), MIX)
    assert (best.feasible, best.batch, best.rate) == (False, 0, 0.0)
    assert best.lowest_itl_seconds == pytest.approx(0.02669, rel=1e-3)


def test_a_request_that_does_not_fit_is_infeasible():
    assert not capacity(replace(REPLICA, kv_tokens=1400.0), MIX).feasible


def test_a_law_with_a_constant_only_allows_the_largest_batch():
    flat = replace(REPLICA, step=StepTime(0.05, 0.0, 0.0, 0.0))
    assert capacity(flat, MIX).batch == 256
    assert not capacity(replace(flat, tpot_slo_seconds=0.05), MIX).feasible


def test_itl_at_the_best_rate_is_the_best_itl():
    best = capacity(REPLICA, MIX)
    assert itl_at(PRIOR, MIX, best.rate) == pytest.approx(best.itl_seconds)


def test_itl_beyond_the_ceiling_is_infinite():
    assert itl_at(PRIOR, MIX, 7.0) == float("inf")
    assert itl_at(PRIOR, MIX, 0.0) == PRIOR.a


def test_a_fully_cached_prompt_still_computes_one_token():
    assert Mix(1000.0, 10.0, 1.0).uncached_tokens == 1.0


def test_a_step_that_costs_nothing_has_no_ceiling():
    assert rate(StepTime(0.0, 0.0, 0.0, 0.0), MIX, 1) == float("inf")

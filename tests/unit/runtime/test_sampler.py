"""Sampling: greedy, nucleus, and randomness that belongs to the request alone."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from kvis_runtime.engine.request import Request, SamplingParams, new_sequence  # noqa: E402
from kvis_runtime.model.sampler import CANDIDATES, sample  # noqa: E402


def a_sequence(**params):
    request = Request("r", (1, 2, 3), SamplingParams(**params))
    return new_sequence(request, max_model_len=64, eos_ids=frozenset(), now=0.0)


def logits_of(*probabilities):
    return torch.log(torch.tensor([probabilities]))


def draws(count, logits, **params):
    sequence = a_sequence(**params)
    return [sample(logits, [sequence])[0] for _ in range(count)]


def test_temperature_zero_takes_the_likeliest_token():
    assert draws(5, logits_of(0.2, 0.5, 0.3)) == [1] * 5


def test_a_seed_gives_the_same_tokens_in_any_batch():
    logits = torch.randn(1, 500)
    alone = draws(10, logits, temperature=1.0, seed=7)
    sequences = [a_sequence(temperature=1.0, seed=1), a_sequence(temperature=1.0, seed=7)]
    together = [sample(logits.expand(2, -1), sequences)[1] for _ in range(10)]
    assert together == alone


def test_without_a_seed_requests_differ():
    logits = torch.zeros(1, 50_000)
    assert draws(4, logits, temperature=1.0) != draws(4, logits, temperature=1.0)


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    drawn = set(draws(300, logits_of(0.5, 0.3, 0.15, 0.05), temperature=1.0, top_p=0.7, seed=1))
    assert drawn == {0, 1}


def test_a_tiny_top_p_is_greedy():
    assert set(draws(20, logits_of(0.2, 0.5, 0.3), temperature=1.0, top_p=0.01, seed=1)) == {1}


def test_a_flat_distribution_is_searched_beyond_the_first_candidates():
    size = 4 * CANDIDATES
    drawn = draws(200, torch.zeros(1, size), temperature=1.0, top_p=0.9, seed=1)
    assert len(set(drawn)) > 100


def test_frequencies_follow_the_probabilities():
    drawn = draws(4000, logits_of(0.6, 0.4), temperature=1.0, seed=3)
    assert 0.56 < drawn.count(0) / len(drawn) < 0.64


def test_a_low_temperature_sharpens():
    drawn = draws(1000, logits_of(0.6, 0.4), temperature=0.25, seed=3)
    assert drawn.count(0) / len(drawn) > 0.8


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=40),
    st.floats(0.01, 2.0),
    st.floats(0.01, 1.0),
    st.integers(0, 2**31),
)
def test_every_draw_is_a_token_of_the_vocabulary(values, temperature, top_p, seed):
    (token,) = sample(torch.tensor([values]), [a_sequence(temperature=temperature, top_p=top_p, seed=seed)])
    assert 0 <= token < len(values)

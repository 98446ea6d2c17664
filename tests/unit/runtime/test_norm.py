"""RMSNorm against its definition in float64."""

import pytest

torch = pytest.importorskip("torch")

from kvis_runtime.model.norm import RMSNorm  # noqa: E402

EPS = 1e-5


def random_rows(scale):
    return torch.randn(7, 48, generator=torch.Generator().manual_seed(1)) * scale


def by_definition(x, weight):
    x, weight = x.double(), weight.double()
    return weight * x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_rows_are_normalised_by_their_root_mean_square(scale):
    x, weight = random_rows(scale), torch.rand(48) + 0.5
    torch.testing.assert_close(
        RMSNorm(weight, EPS)(x).double(), by_definition(x, weight), rtol=1e-6, atol=1e-9
    )


def test_a_row_of_zeros_stays_zero():
    assert RMSNorm(torch.ones(48), EPS)(torch.zeros(1, 48)).tolist() == [[0.0] * 48]


def test_bfloat16_rows_stay_bfloat16():
    x, weight = random_rows(1.0).bfloat16(), torch.ones(48)
    normalised = RMSNorm(weight, EPS)(x)
    assert normalised.dtype == torch.bfloat16
    torch.testing.assert_close(normalised.double(), by_definition(x, weight), rtol=2**-8, atol=0)

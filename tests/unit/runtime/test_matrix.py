"""Weights that float16 holds are kept so, and their products stay those of float32."""

import pytest

torch = pytest.importorskip("torch")

from kvis_runtime.model.matrix import KERNEL_ENGINES, PART_BYTES, Matrix  # noqa: E402

has_kernel = pytest.mark.skipif(
    torch.backends.quantized.engine not in KERNEL_ENGINES, reason="no float16 kernel for this CPU"
)


def random_weight(out=96, inner=64, *, scale=0.02, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(out, inner, generator=generator) * scale).to(dtype).float()


def random_rows(count, inner=64):
    return torch.randn(count, inner, generator=torch.Generator().manual_seed(4))


def assert_float32_product(weight, rows):
    exact = rows.double() @ weight.double().t()
    terms = rows.abs().double() @ weight.abs().double().t()
    assert bool(((Matrix(weight)(rows) - exact).abs() <= 1e-6 * terms + 1e-12).all())


@has_kernel
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_published_in_16_bits_are_packed(dtype):
    assert Matrix(random_weight(dtype=dtype)).is_packed


def test_weights_that_need_32_bits_stay_as_they_are():
    assert not Matrix(random_weight(dtype=torch.float32)).is_packed


def test_a_weight_beyond_the_range_of_float16_stays_as_it_is():
    assert not Matrix(random_weight(scale=1e6)).is_packed


def test_a_model_that_computes_in_bfloat16_multiplies_in_bfloat16():
    product = Matrix(random_weight().bfloat16())(random_rows(2).bfloat16())
    assert product.dtype == torch.bfloat16


@pytest.mark.parametrize("count", [1, 2, 7, 32, 121])
def test_products_are_as_exact_as_float32(count):
    assert_float32_product(random_weight(), random_rows(count))


def test_products_of_a_weight_that_stays_float32_are_as_exact():
    assert_float32_product(random_weight(dtype=torch.float32), random_rows(5))


@has_kernel
def test_tiny_weights_are_packed_and_round_to_the_smallest_step():
    weight = random_weight(scale=1e-6)
    rows = random_rows(3)
    matrix = Matrix(weight)
    assert matrix.is_packed
    error = (matrix(rows) - rows @ weight.t()).abs()
    assert bool((error <= rows.abs().sum(dim=1, keepdim=True) * 2.0**-25 * 1.01).all())


def test_a_matrix_of_several_parts_gives_its_columns_in_order():
    inner = 1024
    weight = random_weight(PART_BYTES // (2 * inner) + 3, inner)
    assert_float32_product(weight, random_rows(2, inner))


def test_no_rows_give_no_products():
    assert Matrix(random_weight())(torch.empty(0, 64)).shape == (0, 96)

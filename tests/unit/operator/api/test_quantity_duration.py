import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvis_operator.api import duration, quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0", 0), ("1024", 1024), ("1k", 1000), ("1Ki", 1024), ("512Mi", 2**29), ("2Gi", 2**31)],
)
def test_memory_in_bytes(text: str, amount: int) -> None:
    assert quantity.parse_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "Mi", "1.5Gi", "-1Gi", "1e3", "1 Gi", "1Mi\n", "1KiB", "९Mi"])
def test_what_is_no_amount_of_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 512Mi"):
        quantity.parse_bytes(text)


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_formatted_bytes_parse_back_to_the_same_amount(amount: int) -> None:
    assert quantity.parse_bytes(quantity.format_bytes(amount)) == amount


@pytest.mark.parametrize(("text", "millicores"), [("1", 1000), ("0.5", 500), ("250m", 250), ("16", 16000)])
def test_cpu_in_thousandths_of_a_core(text: str, millicores: int) -> None:
    assert quantity.parse_cpu(text) == millicores
    assert quantity.parse_cpu(quantity.format_cpu(millicores)) == millicores


@pytest.mark.parametrize("text", ["", "m", "-1", "1.5m", "two"])
def test_what_is_no_amount_of_cpu_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="500m"):
        quantity.parse_cpu(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("2s", 2), ("1.5s", 1.5), ("30m", 1800), ("1h30m", 5400), ("0s", 0)],
)
def test_durations_in_seconds(text: str, seconds: float) -> None:
    assert duration.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "s", "-2s", "2 s", "1d", "2s\n", "2S"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="for example"):
        duration.parse_duration(text)

"""Units: what is printed reads back, and what is no unit is told with an example."""

from fractions import Fraction
from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll import units
from plimsoll.errors import UnitError


@given(st.floats(1e-9, 1e9), st.integers(3, 12))
def test_a_printed_duration_reads_back_to_its_digits(seconds: float, digits: int) -> None:
    back = units.parse_duration(units.format_duration(seconds, digits))
    assert isclose(back, seconds, rel_tol=0.6 * 10 ** (1 - digits))


@given(st.integers(0, 10**9), st.sampled_from(["ns", "us", "ms", "s", "min", "h"]))
def test_a_duration_is_rounded_once(number: int, unit: str) -> None:
    exact = Fraction(number) * {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000),
                                "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)}[unit]  # fmt: skip
    if exact <= units.LONGEST:
        assert units.parse_duration(f"{number}{unit}") == float(exact)


@given(st.integers(0, 10**5))
def test_a_percentage_is_exact(thousandths: int) -> None:
    assert units.parse_ratio(f"{thousandths / 1000}%") == Fraction(thousandths, 100_000)
    assert units.parse_ratio(units.format_ratio(Fraction(thousandths, 100_000), 9)) == Fraction(thousandths, 100_000)


@given(st.integers(0, 2**53))
def test_whole_numbers_read_back(number: int) -> None:
    assert units.parse_count(str(number)) == number
    assert units.parse_tokens(units.format_tokens(number)) == number
    assert units.parse_size(units.format_size(number)) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("800ms", 0.8), ("1.5s", 1.5), ("1h30min", 5400.0), ("1h 30m", 5400.0), ("30d", 2_592_000.0), ("-2s", -2.0),
     ("250 µs", 250e-6), ("0s", 0.0), (".5s", 0.5), ("1_000ms", 1.0)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "5", "ms", "5 parsecs", "1h-30min", ".nan", "inf", "nan", "1e3s", "5ms5", "∞", "9" * 50 + "s",
             "99999999999s"],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UnitError):
        units.parse_duration(text)


@pytest.mark.parametrize("text", ["", "0,5", "50 percent", ".nan", "1/2", "5ms", "%"])
def test_what_is_no_ratio(text: str) -> None:
    with pytest.raises(UnitError, match=r"99\.5%"):
        units.parse_ratio(text)


def test_decimal_and_binary_suffixes_differ() -> None:
    assert units.parse_count("400k") == 400_000
    assert units.parse_tokens("32k") == 32_768
    assert units.parse_size("32MiB") == 33_554_432
    assert units.parse_size("32MB") == 32_000_000
    assert units.parse_count("1.5M") == 1_500_000


@pytest.mark.parametrize("text", ["1.5", "1.0001k", "3X", "", "1e6", "99999T99", "99999999999T"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(UnitError):
        units.parse_count(text)


def test_what_people_read() -> None:
    shown = [units.format_duration(x) for x in (0.0, 3.2e-8, 0.00004, 0.0312, 1.0, 59.94, 5400, 86_400, 2_592_000, inf)]
    assert shown == ["0s", "32ns", "40µs", "31.2ms", "1s", "59.9s", "90min", "24h", "30d", "∞"]
    assert [units.format_count(x) for x in (0, 9999, 12_345, 400_000, 3e6, 1.5)] == [
        "0", "9999", "12.3k", "400k", "3M", "1.5"]  # fmt: skip
    assert units.format_ratio(Fraction(199, 200)) == "99.5%"
    with pytest.raises(ValueError, match="NaN"):
        units.format_duration(float("nan"))


def test_a_long_text_is_not_echoed_whole() -> None:
    with pytest.raises(UnitError) as caught:
        units.parse_duration("x" * 10_000)
    assert len(str(caught.value)) < 200

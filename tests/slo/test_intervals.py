"""Bounds of ratios against scipy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from plimsoll.slo.intervals import clopper_pearson, surely_above


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_bounds_are_clopper_and_pearsons(num: int, rest: int) -> None:
    of = num + rest
    low, high = clopper_pearson(num, of)
    assert low == pytest.approx(beta.ppf(0.025, num, rest + 1) if num else 0.0, abs=1e-9)
    assert high == pytest.approx(beta.ppf(0.975, num + 1, rest) if rest else 1.0, abs=1e-9)
    assert low <= (num / of if of else 0.5) <= high


def test_a_million_is_no_trouble() -> None:
    low, high = clopper_pearson(999_000, 1_000_000)
    assert low == pytest.approx(beta.ppf(0.025, 999_000, 1001), abs=1e-9)
    assert high == pytest.approx(beta.ppf(0.975, 999_001, 1000), abs=1e-9)


@given(st.integers(0, 400), st.integers(0, 400), st.floats(0.0005, 0.9))
def test_the_bound_is_clopper_and_pearsons(bad: int, good: int, ratio: float) -> None:
    bound = beta.ppf(0.025, bad, good + 1) if bad else 0.0
    if abs(bound - ratio) > 1e-9:
        assert surely_above(bad, bad + good, ratio) == (bound > ratio)

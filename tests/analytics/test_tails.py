"""Violations against activity: the exponent is found with its interval, or nothing is said."""

import numpy as np
import pytest

from plimsoll.analytics.tails import power_law


def test_an_exact_power_law_is_found() -> None:
    found = power_law([(activity, 0.01 * activity**1.5, 100) for activity in (1.0, 2.0, 4.0, 8.0, 16.0)])
    assert found is not None
    assert [found.exponent, found.low, found.high] == pytest.approx([1.5, 1.5, 1.5])
    assert found.num_minutes == 500


def test_the_interval_covers_what_is_true() -> None:
    """200 noisy laws of exponent 1.3 over seven classes: the 95 % interval covers it in nearly all."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        classes = [(2.0**k, 0.02 * 2.0 ** (1.3 * k) * float(np.exp(rng.normal(0, 0.2))), 50) for k in range(7)]
        found = power_law(classes)
        assert found is not None
        covered += found.low <= 1.3 <= found.high
    assert covered >= 184


@pytest.mark.parametrize(
    "minutes", [[], [(1.0, 0.5, 10), (2.0, 1.0, 10)], [(1.0, 0.0, 9), (2.0, 0.0, 9), (4.0, 0.0, 9)]]
)
def test_too_little_says_nothing(minutes: list[tuple[float, float, int]]) -> None:
    assert power_law(minutes) is None

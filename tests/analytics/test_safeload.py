"""The safe load is found where it was put, bounded where it was not reached, and unknown of too few minutes."""

import numpy as np
import pytest

from plimsoll.analytics.safeload import FEWEST, safe_load

RNG = np.random.default_rng(1)


def minutes(knee: float, highest: float, num: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loads up to `highest`; one request of a hundred misses below the knee, ten above it."""
    load = RNG.uniform(1.0, highest, num)
    judged = np.maximum(1, RNG.poisson(load * 6)).astype(float)
    bad = RNG.binomial(judged.astype(int), np.where(load > knee, 0.10, 0.002)).astype(float)
    return load, judged, bad


@pytest.mark.parametrize("knee", [20.0, 35.0, 50.0])
def test_a_knee_is_found(knee: float) -> None:
    found = safe_load(*minutes(knee, 60.0), 0.01)
    assert found.value is not None
    assert found.value == pytest.approx(knee, rel=0.08)
    assert (found.low or 0.0) <= found.value <= (found.high or np.inf)


def test_what_was_never_too_much_is_a_lower_bound() -> None:
    load, judged, bad = minutes(100.0, 60.0)
    found = safe_load(load, judged, bad, 0.05)
    assert (found.value, found.above) == (None, load.max())


def test_what_was_always_too_much_is_an_upper_bound() -> None:
    load, judged, _ = minutes(1.0, 60.0)
    found = safe_load(load, judged, judged * 0.5, 0.01)
    assert (found.value, found.below) == (None, load.min())


def test_few_minutes_say_nothing() -> None:
    load, judged, bad = minutes(30.0, 60.0, FEWEST - 1)
    found = safe_load(load, judged, bad, 0.01)
    assert (found.value, found.above, found.below, found.num_minutes) == (None, None, None, FEWEST - 1)

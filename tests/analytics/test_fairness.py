"""Jain's index and the design effect: their bounds and their meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.analytics.fairness import jain
from plimsoll.analytics.independence import design_effect

amounts = st.lists(st.floats(0, 1e300), min_size=1, max_size=30)


@given(amounts)
def test_the_index_lies_between_one_nth_and_one(shares: list[float]) -> None:
    found = jain(shares)
    if max(shares) == 0:
        assert found is None
    else:
        assert found is not None
        assert 1 / len(shares) - 1e-9 <= found <= 1 + 1e-9


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(1, 1000))
def test_the_index_has_no_unit(shares: list[int], times: int) -> None:
    assert jain(shares) == pytest.approx(jain(share * times for share in shares))


def test_the_ends_of_the_index() -> None:
    assert jain([3, 3, 3]) == 1.0
    assert jain([5, 0, 0, 0]) == 0.25
    assert jain([]) is None
    with pytest.raises(ValueError, match="at least 0"):
        jain([1, -1])


def test_independent_values_are_worth_themselves_and_copies_are_not() -> None:
    rng = np.random.default_rng(2)
    draws = rng.random(30_000) < 0.1
    independent = design_effect([(1000, int(part.sum())) for part in np.split(draws, 30)])
    assert independent is not None
    assert independent < 1.9
    copied = np.repeat(draws[:1000], 30)  # each value thirty times in a row: a thirtieth of the information
    effect = design_effect([(1000, int(part.sum())) for part in np.split(copied, 30)])
    assert effect is not None
    assert 12 < effect < 60


def test_too_few_blocks_say_nothing() -> None:
    assert design_effect([(100, 3)] * 9 + [(0, 0)] * 9) is None
    assert design_effect([(100, 0)] * 20) is None

"""Survival under censoring, against scipy, against the truth, and silent where nothing is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import CensoredData, ecdf

from plimsoll.slo.censoring import SurvivalCurve

rows = st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.integers(0, 4)), min_size=1, max_size=40)


@given(rows.filter(lambda rows: any(row[1] for row in rows)))
def test_the_curve_is_scipys(rows: list[tuple[int, bool, int]]) -> None:
    value = np.array([float(row[0]) for row in rows])
    seen = np.array([row[1] for row in rows])
    curve = SurvivalCurve(value, seen)
    oracle = ecdf(CensoredData.right_censored(value, ~seen)).sf
    events = np.isin(oracle.quantiles, curve.times)
    assert curve.survival == pytest.approx(oracle.probabilities[events])


@given(rows)
def test_a_weight_is_as_many_rows(rows: list[tuple[int, bool, int]]) -> None:
    value = np.array([float(row[0]) for row in rows])
    seen = np.array([row[1] for row in rows])
    weight = np.array([row[2] for row in rows])
    weighted = SurvivalCurve(value, seen, weight)
    repeated = SurvivalCurve(np.repeat(value, weight), np.repeat(seen, weight))
    for q in (0.1, 0.5, 0.9, 0.99):
        assert weighted.quantile(q) == repeated.quantile(q)


@given(rows, st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_the_naive_bounds_enclose_and_the_unknown_is_said(rows: list[tuple[int, bool, int]], q: float) -> None:
    curve = SurvivalCurve([float(row[0]) for row in rows], [row[1] for row in rows])
    found = curve.quantile(q)
    assert (found.value is None) != (found.above is None)
    assert found.naive_low is not None
    shown = found.value if found.value is not None else found.above
    assert shown is not None
    assert found.naive_low <= shown
    if found.value is not None and found.naive_high is not None:
        assert found.value <= found.naive_high
    if found.low is not None and found.value is not None:
        assert found.low <= found.value
        assert found.high is None or found.value <= found.high


def test_without_censoring_it_is_the_plain_quantile() -> None:
    curve = SurvivalCurve(np.arange(1, 101), np.ones(100))
    assert [curve.quantile(q).value for q in (0.5, 0.9, 0.99, 1.0)] == [50, 90, 99, 100]


def test_timeouts_neither_dropped_nor_taken_at_face_value() -> None:
    """50,000 requests, timeouts of 5, 10 and 30 s: the truth comes back where dropping and face value fall short."""
    rng = np.random.default_rng(11)
    true = rng.lognormal(np.log(1.2), 1.1, 50_000)
    limit = rng.choice([5.0, 10.0, 30.0], true.size)
    seen = true <= limit
    curve = SurvivalCurve(np.minimum(true, limit), seen)
    p99 = float(np.quantile(true, 0.99))
    found = curve.quantile(0.99)
    assert found.value == pytest.approx(p99, rel=0.05)
    assert np.quantile(true[seen], 0.99) < 0.85 * p99
    assert found.low is not None
    assert found.high is not None
    assert found.low < p99 < found.high


def test_beyond_the_last_censoring_point_the_answer_is_above() -> None:
    true = np.linspace(0.1, 20, 1000)
    found = SurvivalCurve(np.minimum(true, 10.0), true <= 10.0).quantile(0.99)
    assert (found.value, found.above, found.high, found.naive_high) == (None, 10.0, None, None)
    assert found.num_censored == int((true > 10).sum())


def test_nothing_is_known_of_nothing() -> None:
    found = SurvivalCurve([], []).quantile(0.5)
    assert (found.num, found.value, found.above, found.naive_low) == (0, None, None, None)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        SurvivalCurve([1.0], [True, False])
    with pytest.raises(ValueError, match="NaN"):
        SurvivalCurve([float("nan")], [True])

"""The sketch: merging is adding, values come back within 1.09 %, intervals cover what they say."""

from math import ceil, log2, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from plimsoll.slo.quantiles import EXACT_UP_TO, Estimate, Sketch, bucket_edges, interval_ranks, tail_ratio
from plimsoll.slo.timing import ItlSketch, bucket_of

ALPHA = (2 ** (1 / 32) - 1) / (2 ** (1 / 32) + 1)
values = st.floats(1e-6, 1e5) | st.just(0.0) | st.sampled_from([2 ** (k / 32) for k in range(-64, 65)])
QUANTILES = (0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0)


def sketch_of(data: list[float]) -> Sketch:
    sketch = Sketch()
    for value in data:
        sketch.add(value)
    return sketch


@given(st.lists(values, max_size=50), st.sampled_from([1, 40, 100]), st.lists(values, max_size=50))
def test_bulk_equals_one_by_one(few: list[float], times: int, more: list[float]) -> None:
    bulk, single = Sketch(), Sketch()
    for part in (few * times, more):
        bulk.add_many(np.array(part))
        for value in part:
            single.add(value)
    assert bulk.num == single.num == len(few) * times + len(more)
    assert bulk.is_exact == single.is_exact == (bulk.num <= EXACT_UP_TO)
    assert bulk.bucketed() == single.bucketed()
    assert [bulk.quantile(q) for q in QUANTILES] == [single.quantile(q) for q in QUANTILES]


@given(st.lists(st.lists(values, max_size=30), max_size=5), st.sampled_from([1, 30]))
def test_merging_in_any_order_is_adding(parts: list[list[float]], times: int) -> None:
    parts = [part * times for part in parts]
    forward, backward = Sketch(), Sketch()
    for part in parts:
        forward.merge(sketch_of(part))
    for part in reversed(parts):
        backward.merge(sketch_of(part))
    together = sketch_of([value for part in parts for value in part])
    assert forward.bucketed() == backward.bucketed() == together.bucketed()
    assert forward.num == together.num
    assert forward.is_exact == together.is_exact or together.num > EXACT_UP_TO
    assert [forward.quantile(q) for q in QUANTILES] == [backward.quantile(q) for q in QUANTILES]


@given(st.lists(values, min_size=1, max_size=60), st.sampled_from([1, 40]), st.sampled_from(QUANTILES))
def test_a_quantile_is_the_value_of_its_rank_within_the_bound(data: list[float], times: int, q: float) -> None:
    data = data * times
    true = sorted(data)[max(1, ceil(q * len(data) - 1e-9)) - 1]
    found = sketch_of(data).quantile(q)
    assert found is not None
    assert abs(found - true) <= (ALPHA + 1e-9) * true if len(data) > EXACT_UP_TO else found == true


@given(st.lists(values, min_size=1, max_size=60), st.sampled_from([1, 40]), st.sampled_from([0.5, 0.9, 0.99]))
def test_the_interval_holds_its_order_statistics(data: list[float], times: int, q: float) -> None:
    data = sorted(data * times)
    estimate = sketch_of(data).estimate(q)
    low, high = interval_ranks(len(data), q)
    assert (estimate.low is None) == (low == 0)
    assert (estimate.high is None) == (high > len(data))
    assert (estimate.value is None) == (estimate.low is None or estimate.high is None)
    if estimate.low is not None:
        assert estimate.low <= data[low - 1]
    if estimate.high is not None:
        assert estimate.high >= data[high - 1] * (1 - 1e-12)


@settings(max_examples=300)
@given(st.integers(1, 200_000), st.floats(0.001, 0.9999), st.sampled_from([0.025, 0.0125]))
def test_ranks_are_the_binomials(num: int, q: float, tail: float) -> None:
    """scipy is the oracle; a level within rounding of a step may fall either side."""
    low, high = interval_ranks(num, q, tail)
    assert binom.cdf(low - 1, num, q) <= tail * (1 + 1e-6) <= binom.cdf(low, num, q) * (1 + 2e-6)
    assert binom.sf(high - 1, num, q) <= tail * (1 + 1e-6)
    assert binom.sf(high - 2, num, q) >= tail * (1 - 1e-6)


def test_not_enough_data_below_the_n_that_bounds() -> None:
    for q, least in ((0.99, 368), (0.999, 3688)):
        assert interval_ranks(least, q)[1] == least
        assert interval_ranks(least - 1, q)[1] == least  # one more than there are
    few = sketch_of([float(i) for i in range(1, 121)]).estimate(0.99)
    assert (few.num, few.value, few.high) == (120, None, None)
    assert few.low == 116.0
    assert Sketch().estimate(0.5) == Estimate(0.5, 0, None, None, None)


def test_coverage_of_the_interval() -> None:
    """Of 2,000 samples of 1,000, at least 95 % (less three deviations) hold the true p99."""
    rng = np.random.default_rng(7)
    low, high = interval_ranks(1000, 0.99)
    samples = np.sort(rng.random((2000, 1000)), axis=1)
    covered = (samples[:, low - 1] <= 0.99) & (samples[:, high - 1] >= 0.99)
    assert covered.mean() >= 0.95 - 3 * (0.95 * 0.05 / 2000) ** 0.5


def test_the_index_is_that_of_native_and_exponential_histograms() -> None:
    """Prometheus: gamma^(i−1) < v <= gamma^i. OTel: gamma^i < v <= gamma^(i+1)."""
    sketch = sketch_of([1.0, 1.5, 0.02])
    assert sketch.bucketed().buckets == {bucket_of(0.02): 1, 0: 1, ceil(32 * log2(1.5)): 1}
    assert sketch.otel_buckets() == {index - 1: num for index, num in sketch.bucketed().buckets.items()}
    low, high = bucket_edges(bucket_of(0.02))
    assert low < 0.02 <= high


def test_fewer_independent_values_widen_the_interval() -> None:
    sketch = sketch_of([i / 1000 for i in range(1000)])
    plain, worth = sketch.estimate(0.9), sketch.estimate(0.9, effective_num=100)
    assert worth.effective_num == 100
    assert plain.low is not None
    assert plain.high is not None
    assert worth.low is not None
    assert worth.high is not None
    assert worth.low < plain.low < plain.high < worth.high
    assert sketch.estimate(0.99, effective_num=50).value is None


@pytest.mark.parametrize("value", [nan, -1.0, float("inf")])
def test_what_is_no_value_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Sketch().add(value)
    with pytest.raises(ValueError, match="finite"):
        Sketch().add_many([1.0, value])


def test_counts_above_a_threshold() -> None:
    exact = sketch_of([0.0, 1.0, 2.0, 3.0])
    assert [exact.num_above(t) for t in (0.0, 1.0, 2.5, 9.0)] == [3, 2, 1, 0]
    coarse = Sketch()
    coarse.add_itl(ItlSketch(2, {0: 3, 32: 4}))  # values up to 1, up to 2
    assert [coarse.num_above(t) for t in (0.0, 0.5, 1.0, 1.99, 2.0)] == [7, 7, 4, 0, 0]


def test_p99_over_p50() -> None:
    rng = np.random.default_rng(3)
    sketch = Sketch()
    sketch.add_many(rng.lognormal(0, 0.5, 50_000))
    ratio = tail_ratio(sketch)
    assert ratio.value == pytest.approx(np.exp(0.5 * 2.326), rel=0.06)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < np.exp(0.5 * 2.326) < ratio.high
    assert tail_ratio(sketch_of([1.0] * 20)).value is None


def test_exactness_ends_where_it_is_said_to() -> None:
    sketch = sketch_of([1.1] * EXACT_UP_TO)
    assert (sketch.is_exact, sketch.quantile(0.5)) == (True, 1.1)
    sketch.add(1.1)
    assert not sketch.is_exact


@given(st.lists(values, max_size=60), st.sampled_from([1, 40]))
def test_weighted_values_are_all_of_them_in_order(data: list[float], times: int) -> None:
    data = sorted(data * times)
    weighted = sketch_of(data).weighted()
    repeated = [value for value, num in weighted for _ in range(num)]
    assert len(repeated) == len(data)
    assert repeated == sorted(repeated)
    assert all(abs(mine - true) <= (ALPHA + 1e-9) * true for mine, true in zip(repeated, data, strict=True))

"""Values in bulk go where they would go one by one, at the very edges of buckets and at the ends of floats, too."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.buckets import Buckets, binned
from plimsoll.slo.timing import bucket_of


def test_every_edge_and_its_neighbours() -> None:
    edges = np.array([2.0 ** (k / 32) for k in range(-700, 500)])
    values = np.concatenate([np.nextafter(edges, 0.0), edges, np.nextafter(edges, np.inf)])
    zeros, low, counts = binned(np.tile(values, 3))
    assert zeros == 0
    found = {low + place: num for place, num in enumerate(counts.tolist()) if num}
    assert found == {index: 3 * num for index, num in Counter(map(bucket_of, values.tolist())).items()}


@given(st.lists(st.floats(0.0, 1.7e308), max_size=60))
def test_whatever_floats_there_are(values: list[float]) -> None:
    buckets = Buckets()
    zeros = buckets.add_values(np.array(values, np.float64))
    assert zeros == values.count(0.0)
    assert dict(buckets.items()) == Counter(bucket_of(value) for value in values if value)


@given(st.lists(st.lists(st.tuples(st.integers(-4000, 4000), st.integers(1, 9)), max_size=20), min_size=1, max_size=5))
def test_merging_adds_wherever_they_lie(parts: list[list[tuple[int, int]]]) -> None:
    total, whole = Buckets(), Counter[int]()
    for part in parts:
        other = Buckets()
        other.add_all(part)
        total.merge(other)
        for index, num in part:
            whole[index] += num
    assert dict(total.items()) == whole
    assert total.num_above(0) == sum(num for index, num in whole.items() if index > 0)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, -np.inf])
def test_what_is_no_latency(bad: float) -> None:
    with pytest.raises(ValueError, match="finite values"):
        binned(np.array([1.0, bad, -0.0]))
    assert binned(np.array([-0.0, 0.0, 1.0]))[0] == 2

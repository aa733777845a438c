"""A clock of tokens says the same whichever way the tokens came."""

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.sli import num_gaps
from plimsoll.slo.timing import ItlSketch, Timing, TokenClock, TokenRun, bucket_of

THRESHOLDS = (0.05, 0.15)
gaps = st.floats(1e-6, 1e3) | st.just(0.0)
steps = st.floats(-1e-3, 1e-2) | st.just(0.0) | st.floats(-1e-9, 1e-9)


@given(st.lists(st.tuples(gaps, steps, st.integers(1, 3000)), min_size=1, max_size=4))
def test_a_run_equals_its_gaps_one_by_one(runs: list[tuple[float, float, int]]) -> None:
    jumping, stepping = TokenClock(THRESHOLDS), TokenClock(THRESHOLDS)
    jumping.tokens(1.0, 1)
    stepping.tokens(1.0, 1)
    for first, step, num in runs:
        jumping.run(TokenRun(jumping.last_token_at, first, step, num))
        for j in range(num):
            stepping.add_gap(first + j * step)
    stepping.last_token_at = jumping.last_token_at
    assert jumping.finish(None) == stepping.finish(None)


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5)), min_size=1, max_size=60))
def test_an_event_of_k_tokens_is_one_gap_and_zeros(events: list[tuple[int, int]]) -> None:
    """Instants on a grid of 1/1024 s, so that differences are exact."""
    clock, at = TokenClock(THRESHOLDS), 0.0
    expected: list[float] = []
    for ticks, num in events:
        at += ticks / 1024
        clock.tokens(at, num)
        expected += [ticks / 1024] + [0.0] * (num - 1)
    expected = expected[1:]  # before the first token there is no gap
    timing = clock.finish(None)
    assert timing.num_tokens == len(expected) + 1
    assert timing.last_token_at == at
    assert timing.itl_bad == tuple(sum(gap > threshold for gap in expected) for threshold in THRESHOLDS)
    assert timing.itl_max == max(expected, default=0.0)
    assert timing.sketches == _sketched(expected)


def _sketched(expected: list[float]) -> tuple[ItlSketch, ItlSketch, ItlSketch]:
    """Token n's gap is the n − 2nd of the list; classes end at tokens 128 and 1024."""
    sketches = []
    for part in (expected[:127], expected[127:1023], expected[1023:]):
        buckets: dict[int, int] = {}
        for gap in part:
            if gap > 0:
                buckets[bucket_of(gap)] = buckets.get(bucket_of(gap), 0) + 1
        sketches.append(ItlSketch(part.count(0.0), buckets))
    return sketches[0], sketches[1], sketches[2]


@given(st.integers(1, 2000), st.integers(0, 3000))
def test_a_surplus_known_from_usage_counts_as_zeros(seen: int, surplus: int) -> None:
    clock = TokenClock()
    for i in range(seen):
        clock.tokens(1.0 + i, 1)
    timing = clock.finish(seen + surplus)
    assert timing.num_tokens == seen + surplus
    assert sum(sketch.num_zero for sketch in timing.sketches) == surplus
    assert sum(sum(sketch.buckets.values()) for sketch in timing.sketches) == seen - 1
    in_classes = [sketch.num_zero + sum(sketch.buckets.values()) for sketch in timing.sketches]
    total = seen + surplus
    assert in_classes == [min(total, 128) - 1, max(0, min(total, 1024) - 128), max(0, total - 1024)]


@given(st.floats(1e-9, 1e9))
def test_a_value_lies_within_its_bucket(value: float) -> None:
    """Within the rounding of one power: 1 part in 10^12."""
    index = bucket_of(value)
    assert 2.0 ** ((index - 1) / 32) * (1 - 1e-12) < value <= 2.0 ** (index / 32) * (1 + 1e-12)
    assert index == ceil(log2(value) * 32)


def test_without_streaming_no_gaps_are_made_up() -> None:
    assert TokenClock((0.1,)).finish(50) == Timing(num_tokens=50, itl_bad=(0,))


def test_fewer_tokens_in_usage_than_seen_keeps_the_gaps() -> None:
    clock = TokenClock()
    for i in range(5):
        clock.tokens(1.0 + i, 1)
    timing = clock.finish(3)
    assert timing.num_tokens == 3
    assert timing.sketches[0].buckets == {0: 4}


def test_what_the_client_held_back_is_no_gap() -> None:
    clock = TokenClock((0.5,))
    clock.stall(9.0)  # before the first token: kept, but no gap to take it off
    clock.tokens(10.0, 1)
    clock.stall(4.0)
    clock.tokens(14.25, 1)
    clock.tokens(15.25, 1)
    timing = clock.finish(None)
    clock.stall(2.0)  # behind the last token
    assert timing.client_stall == 13.0
    assert (timing.stall_before, timing.stall_between) == (9.0, 4.0)
    assert clock.finish(None).client_stall == 15.0
    assert clock.finish(None).stall_between == 4.0
    assert timing.itl_bad == (1,)
    assert timing.sketches[0].buckets == {bucket_of(0.25): 1, 0: 1}


def test_a_clock_that_steps_back_is_no_gap() -> None:
    clock = TokenClock()
    clock.tokens(10.0, 1)
    clock.tokens(9.0, 1)
    assert clock.finish(None).sketches[0] == ItlSketch(1, {})


def test_a_run_before_any_token_brings_the_first() -> None:
    clock = TokenClock()
    clock.run(TokenRun(100.0, 0.5, 0.0, 3))
    timing = clock.finish(None)
    assert (timing.first_token_at, timing.last_token_at, timing.num_tokens) == (100.5, 101.5, 3)
    assert timing.sketches[0].buckets == {-32: 2}
    clock.run(TokenRun(101.5, 0.5, 0.0, 0))
    assert clock.num_tokens == 3


@pytest.mark.parametrize("gap", [0.05, 0.15])
def test_a_gap_of_exactly_the_threshold_is_good(gap: float) -> None:
    clock = TokenClock(THRESHOLDS)
    clock.tokens(1.0, 1)
    clock.add_gap(gap)
    assert clock.finish(None).itl_bad == tuple(int(gap > threshold) for threshold in THRESHOLDS)


@given(st.lists(st.integers(1, 400), max_size=12), st.integers(0, 50))
def test_the_gaps_counted_are_those_in_the_sketches(events: list[int], surplus: int) -> None:
    clock = TokenClock()
    for i, num in enumerate(events):
        clock.tokens(1.0 + i, num)
    timing = clock.finish(sum(events) + surplus)
    assert timing.num_gaps == num_gaps(timing)


@given(gaps, steps, st.integers(1, 200))
def test_a_run_ends_when_its_last_gap_does(first: float, step: float, num: int) -> None:
    clock = TokenClock()
    clock.tokens(1.0, 1)
    clock.run(TokenRun(1.0, first, step, num))
    assert clock.last_token_at == pytest.approx(1.0 + sum(first + j * step for j in range(num)))

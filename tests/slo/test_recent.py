"""Running sums by the minute, and what the tokens of a request are worth as events."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.intervals import clopper_pearson
from plimsoll.slo.recent import NOTHING, Counts, Recent

AT = 1_793_500_020.0  # a minute's beginning
REQUESTS = st.lists(
    st.integers(0, 50).flatmap(lambda n: st.tuples(st.floats(0, 6000), st.integers(0, n), st.just(n))), max_size=60
)


@given(REQUESTS, st.integers(1, 80), st.integers(0, 120))
def test_any_window_is_the_sum_of_its_requests(
    requests: list[tuple[float, int, int]], minutes: int, until: int
) -> None:
    requests.sort()
    recent = Recent(keep=80 * 60)
    for at, bad, judged in requests:
        recent.add(AT + at, NOTHING.with_request(bad, judged))
    now = 6000 // 60 + until
    expected = NOTHING
    for at, bad, judged in requests:
        if now - minutes < at // 60 <= now:
            expected = expected.with_request(bad, judged)
    assert recent.window(AT + now * 60, minutes * 60) == expected


def test_old_minutes_are_forgotten_and_change_nothing() -> None:
    recent = Recent(keep=600)
    for minute in range(10_000):
        recent.add(AT + 60 * minute, Counts(1, 2, 1, 1, 1, 2, 4))
        if minute >= 10:
            assert recent.window(AT + 60 * minute, 600).num_judged == 20
    assert len(recent._minutes) < 40


def test_what_comes_late_counts_for_the_open_minute() -> None:
    recent = Recent(keep=600)
    recent.add(AT + 300, NOTHING.with_request(0, 1))
    recent.add(AT, NOTHING.with_request(1, 1))
    assert recent.window(AT + 300, 60) == NOTHING.with_request(0, 1).with_request(1, 1)


def counted(requests: list[tuple[int, int]]) -> Counts:
    counts = NOTHING
    for bad, judged in requests:
        counts = counts.with_request(bad, judged)
    return counts


def test_requests_of_one_event_each_are_worth_just_that() -> None:
    assert counted([(1, 1)] * 30 + [(0, 1)] * 70).as_independent() == (30, 100)


def test_one_stalled_stream_is_one_event() -> None:
    """600 bad tokens of 10,000, all in one answer of ten: one event of ten or so, not 600 of 10,000."""
    bad, num = counted([(600, 1000)] + [(0, 1000)] * 9).as_independent()
    assert bad <= 1
    assert 8 <= num <= 17
    assert counted([(1000, 1000)] * 7).as_independent() == (7, 7)
    assert counted([(0, 1000)] * 7).as_independent() == (0, 7)
    assert NOTHING.as_independent() == (0, 0)


def test_tokens_spread_evenly_are_worth_nearly_each_one() -> None:
    bad, num = counted([(10, 1000)] * 50 + [(11, 1000)] * 50).as_independent()
    assert num == 100_000
    assert bad == 1050


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_that_of_a_bootstrap_over_requests(seed: int) -> None:
    """Streams stall as a whole: resampling requests and the counts' closed form agree on the lower bound."""
    dice = np.random.default_rng(seed)
    judged = dice.integers(20, 400, 800)
    stalls = dice.random(800) < 0.1
    bad = np.where(stalls, (judged * dice.uniform(0.1, 0.6, 800)).astype(int), dice.binomial(judged, 0.002))
    counts = counted([(int(b), int(n)) for b, n in zip(bad, judged, strict=True)])
    draws = dice.integers(0, 800, (4000, 800))
    ratios = bad[draws].sum(axis=1) / judged[draws].sum(axis=1)
    bound = clopper_pearson(*counts.as_independent())[0]
    assert bound == pytest.approx(float(np.quantile(ratios, 0.025)), rel=0.08)
    naive = clopper_pearson(counts.num_bad, counts.num_judged)[0]
    assert naive > 1.08 * bound, "tokens taken for independent would be far too sure"

"""Comparisons: intervals hold what they say, pairs take the luck out, and words follow the sign."""

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from plimsoll.analytics.blocks import Blocks
from plimsoll.analytics.compare import Word, by_draws, by_seeds, paired, welch
from plimsoll.analytics.tally import promises_of
from plimsoll.sim.randomness import stream
from tests.sim.world import POLICY, simulated, traffic

KEY = ("all", "all", "")


def test_the_intervals_are_those_of_scipy() -> None:
    a, b = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9], [27.1, 22.0, 20.8, 23.4, 23.4, 23.5]
    expected = ttest_rel(b, a).confidence_interval(0.95)
    assert paired(a, b) == pytest.approx((expected.low, expected.high), abs=2e-3)
    expected = ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    low, high = welch(a, b)
    assert low is not None
    assert high is not None
    assert expected.low - 0.3 < low <= expected.low + 2e-3  # degrees are rounded down: a little wide
    assert expected.high - 2e-3 <= high < expected.high + 0.3


def test_pairs_take_the_luck_out() -> None:
    luck = stream(1, "luck").normal(0, 1, 6)
    a = {seed: float(value) for seed, value in enumerate(luck)}
    b = {seed: float(value) + 0.1 + 0.001 * seed for seed, value in enumerate(luck)}
    assert by_seeds(KEY, "goodput_ratio", a, b, range(6)).word is Word.BETTER
    assert by_seeds(KEY, "ttft_p99", a, b, range(6)).word is Word.WORSE
    assert by_seeds(KEY, "ttft_p99", a, b, ()).word is Word.NOT_SHOWN
    assert by_seeds(KEY, "ttft_p99", a, a, range(6)).word is Word.SAME
    assert by_seeds(KEY, "ttft_p99", a, {**b, 3: None}, range(6)).word is Word.UNKNOWN
    assert by_seeds(KEY, "ttft_p99", {1: 1.0}, {1: 2.0}, (1,)).word is Word.UNKNOWN


def test_an_interval_over_pairs_holds_what_it_says() -> None:
    held = 0
    for number in range(400):
        a = stream(number, "a").normal(0, 1, 5)
        b = a + stream(number, "b").normal(0.5, 0.3, 5)
        low, high = paired(a.tolist(), b.tolist())
        held += low is not None and high is not None and low <= 0.5 <= high
    assert held / 400 == pytest.approx(0.95, abs=0.035)


def test_blocks_add_up_to_the_report() -> None:
    _, records = simulated(traffic(60.0), 1)
    blocks = Blocks(30, records[0].arrived_at - 61, records[0].arrived_at + 61)
    blocks.add(records, promises_of(POLICY))
    once = np.ones((1, 30), dtype=np.int64)
    times = [record.ttft for record in records if record.ttft is not None]
    assert blocks.num(KEY, "ttft_p50") == len(records)
    assert blocks.drawn(KEY, "ttft_p50", once)[0] == pytest.approx(np.quantile(times, 0.5), rel=0.03)
    assert blocks.drawn(KEY, "ttft_p95", once)[0] == pytest.approx(np.quantile(times, 0.95), rel=0.05)
    good = blocks.drawn(KEY, "goodput_ratio", once)[0]
    assert 0.5 < good <= 1.0
    assert ("tenant", "acme", "gold") in {group for group, _ in blocks.figures()}
    assert np.isnan(blocks.drawn(("tenant", "nobody", ""), "ttft_p50", once)[0])


def test_a_bootstrap_tells_a_shift_and_nothing_where_there_is_none() -> None:
    draws = stream(1, "draws").normal(0, 1.0, 1001)
    plain, shifted = 10 + draws, 12 + draws + stream(2, "draws").normal(0, 0.1, 1001)
    assert by_draws(KEY, "e2e_p99", plain, shifted).word is Word.WORSE
    assert by_draws(KEY, "e2e_p99", plain, plain).word is Word.SAME
    other = 10.5 + stream(3, "draws").normal(0, 1.0, 1001)
    assert by_draws(KEY, "e2e_p99", plain, other).word is Word.NOT_SHOWN
    assert by_draws(KEY, "e2e_p99", plain, np.full(1001, np.inf)).word is Word.UNKNOWN

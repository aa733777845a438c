"""Forecasts held against what came: on months whose future is known, and on months that drift."""

import numpy as np
import pytest

from benchmarks.driftingmonths import KINDS, START, drifting_months
from benchmarks.forecasts import tried
from plimsoll.analytics.backtest import BANDED, NAIVE, pinball, summed, trials
from plimsoll.analytics.forecast import ForecastState
from plimsoll.slo.budget import HourCount


def test_pinball_is_that_of_the_textbook() -> None:
    """10 short of the median costs 5, 10 above the 90 % quantile 9, 10 below the 10 % quantile 1."""
    assert pinball(np.array([100.0, 110.0, 110.0]), 120.0) == pytest.approx((0.1 * 20 + 0.5 * 10 + 0.9 * 10) / 3)
    assert pinball(np.array([100.0, 110.0, 130.0]), 90.0) == pytest.approx((0.9 * 10 + 0.5 * 20 + 0.1 * 40) / 3)
    assert pinball(np.array([5.0, 5.0, 5.0]), 5.0) == 0.0


def test_drifting_months_are_covered_and_beat_every_naive_forecast() -> None:
    """Settings were chosen on even seeds. No two forecasts are of the same hour."""
    found = summed("", "", [trial for kind in KINDS for trial in tried(kind, (1, 3))])
    assert found.num >= 300
    assert found.covered_ratio is not None
    assert 0.75 <= found.covered_ratio <= 0.85
    assert found.exhaustion_covered_ratio is not None
    assert 0.7 <= found.exhaustion_covered_ratio <= 0.9, "fewer and not independent"
    assert found.pinball is not None
    assert set(found.naive_pinball) == {*NAIVE, *(BANDED.format(name) for name in NAIVE)}
    assert found.pinball < min(found.naive_pinball.values())


def test_a_month_that_repeats_itself_is_known_to_the_naive_too() -> None:
    hours = [HourCount(START + i, 1000, 30 if i % 24 > 8 else 6) for i in range(28 * 24)]
    found = summed("acme", "ttft", trials(hours))
    assert found.num == 14
    assert found.naive_pinball["same hour yesterday"] == 0.0
    assert found.naive_pinball["current burn held"] > 0.1, "a night's hour, or a day's, held for 24"
    assert found.pinball is not None
    assert found.pinball < 0.02
    assert found.num_exhaustions == 1, "only the first has two weeks after it"
    assert found.exhaustion_covered_ratio == 1.0


def test_a_break_nobody_could_foresee_is_counted_as_missed() -> None:
    hours = [HourCount(START + i, 1000, 10 if i < 20 * 24 else 400) for i in range(21 * 24)]
    found = trials(hours)
    assert [trial.above for trial in found] == [False] * 6 + [True]
    assert not any(trial.below for trial in found)


def test_states_are_counted_apart() -> None:
    silent = [HourCount(START, 1, 0), HourCount(START + 30 * 24, 1, 1)]
    found = summed("acme", "ttft", trials(silent))
    assert found.num == 0
    assert found.covered_ratio is None
    assert found.pinball is None
    assert found.naive_pinball == {}
    assert sum(found.num_states.values()) == len(trials(silent))
    assert set(found.num_states) == {ForecastState.NO_TRAFFIC.value}
    assert trials([]) == []
    assert trials(silent[:1]) == []


def test_months_are_the_same_whoever_draws_them() -> None:
    kind = KINDS[2]
    once = drifting_months(7, kind, 20)
    assert drifting_months(7, KINDS[0], 20) != once
    assert drifting_months(7, kind, 20) == once
    assert drifting_months(8, kind, 20) != once

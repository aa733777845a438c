"""Predictions in hindsight are those that were made; two predictors are compared on what neither has seen."""

import numpy as np
import pytest
from msgspec.structs import replace

from plimsoll.governor.learned import UNTOLD
from plimsoll.sim.heldout import compare, pinball, scaled, split, target_of
from plimsoll.sim.pastdispatches import Case, cases, visit_of
from tests.sim.learnt import BELIEVED, log, taught


def test_hindsight_predicts_what_was_predicted() -> None:
    """By the log alone: what happened in one instant has no order there, so a few differ."""
    rows = [settle.record for settle in log(2, 60.0)]
    visits = [visit for row in rows if (visit := visit_of(row, BELIEVED.block_size))]
    live = {row.dispatched_at: row.predicted_ttft for row in rows}
    off = sorted(abs(case.facts[0] / (live[case.at] or 0.0) - 1.0) for case in cases(visits, BELIEVED))
    assert len(off) > 500
    assert off[len(off) // 2] < 0.005
    assert off[len(off) * 9 // 10] < 0.05


def test_what_teaches_nothing_is_left_out() -> None:
    row = next(settle.record for settle in log(2, 5.0) if settle.record.streaming)
    assert visit_of(row, 16) is not None
    for changed in (replace(row, attempts=2), replace(row, first_token_at=None), replace(row, prefill="http://p")):
        assert visit_of(changed, 16) is None
    told = visit_of(replace(row, report_running=None, report_age=None, cached_expected=None, cached_tokens=7), 16)
    assert told is not None
    assert (told.reported[0], told.report_age, told.cached_tokens) == (UNTOLD, UNTOLD, 0)


def test_what_the_gateway_thought_to_be_cached_is_what_counts() -> None:
    """It is what routing goes by; what the engine then had is known too late."""
    row = next(settle.record for settle in log(2, 5.0) if settle.record.streaming)
    visit = visit_of(replace(row, cached_expected=64, cached_tokens=7), 16)
    assert visit is not None
    assert visit.cached_tokens == 64


def test_what_is_held_out_comes_after_all_that_was_learnt_from() -> None:
    before, after = split(taught(), 0.7)
    assert len(before) > len(after) > 100
    assert max(case.at + case.ttft for case in before) <= min(case.at for case in after)
    assert split([]) == ([], [])


def flat(at: float, ttft: float) -> Case:
    return Case(at, [0.1] + [0.0] * 10, ttft, 0.0, 0.0)


def test_a_gain_that_may_be_chance_wins_nothing() -> None:
    held = [flat(float(i), 0.1 + 0.01 * (i % 10)) for i in range(1000)]
    model = scaled(held, held)
    assert model[0].tolist() == pytest.approx([0.1, 0.18], rel=0.01)
    better = np.array([[case.ttft, case.ttft] for case in held])
    assert compare(held, better, model).wins
    assert not compare(held, model, model).wins
    once = model.copy()
    once[:50] = better[:50]  # much better in one stretch of ten, the same in the others
    assert not compare(held, once, model).wins
    narrow = better.copy()
    narrow[:, 1] = 10.0  # the median is better, the 90 % quantile worse
    assert not compare(held, narrow, model).wins


def test_figures_by_hand() -> None:
    found = compare([flat(0.0, 0.2), flat(1.0, 0.1)], np.array([[0.1, 0.1], [0.15, 0.3]]), np.array([[0.2, 0.2]] * 2))
    assert found.learned.median_error == pytest.approx(0.5)
    assert found.learned.signed_error == pytest.approx(0.0)
    assert found.learned.pinball_p50 == pytest.approx((0.5 * 0.1 + 0.5 * 0.05) / 2)
    assert found.learned.pinball_p90 == pytest.approx((0.9 * 0.1 + 0.1 * 0.2) / 2)


def test_pinball_is_least_at_the_quantile() -> None:
    came = np.random.default_rng(7).exponential(1.0, 4001)
    guesses = np.linspace(0.1, 5.0, 200)
    losses = [float(pinball(came, np.full_like(came, guess), 0.9).mean()) for guess in guesses]
    assert guesses[int(np.argmin(losses))] == pytest.approx(np.quantile(came, 0.9), abs=0.03)


def test_targets_are_logs_of_ratios() -> None:
    assert target_of(flat(0.0, 0.2)) == pytest.approx(np.log(2.0))

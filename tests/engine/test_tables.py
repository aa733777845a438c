"""Timing tables in place of the formula, and how long a run of steps stays a progression."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.engine.features import DecodeTable, LinearTable, Precision, Tables
from plimsoll.engine.grids import Grid, Line
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.engine.steptime import StepTime, unloaded_e2e, unloaded_ttft

TABLES = Tables(
    "a test",
    decode=DecodeTable((1, 4), (0, 100, 300), ((0.010, 0.012, 0.030), (0.016, 0.020, 0.060))),
    mixed=LinearTable((1, 100, 200), (0.01, 0.02, 0.06)),
)
PROFILE = EngineProfile(
    "tabled", "a test", StepCoefficients(a=0.01, b=0.001), StepCoefficients(a=1.0, pw=1e-5), tables=TABLES
)
STEPS = StepTime(PROFILE)


def test_between_points_it_is_linear_and_beyond_them_straight_on() -> None:
    line = Line((0.0, 10.0, 30.0), (1.0, 2.0, 6.0))
    assert [line.at(x) for x in (-10, 0, 5, 10, 20, 40)] == [0, 1, 1.5, 2, 4, 8]
    assert [line.edge(line.cell(x)) for x in (-1.0, 3.0, 10.0, 99.0)] == [10.0, 10.0, float("inf"), float("inf")]
    grid = Grid((1, 3), (0, 10), ((1, 2), (3, 6)))
    assert grid.at(2, 5) == pytest.approx((1.5 + 4.5) / 2)
    assert grid.slope(2, 5) == pytest.approx((0.1 + 0.3) / 2)


def test_steps_by_hand() -> None:
    assert STEPS.decode(1, 50) == pytest.approx(0.011)
    assert STEPS.decode(4, 200) == pytest.approx(0.040)
    assert STEPS.mixed(50, 1, 0, 0, 1250.0, 0.0) == pytest.approx(0.01 + 49 / 99 * 0.01 + 0.0125)
    assert STEPS.decode(2, 50, guesses=20) - STEPS.decode(2, 50) == pytest.approx(0.022 - 0.01), "by the formula"


@given(st.integers(1, 6), st.integers(0, 400))
def test_steps_are_alike_up_to_a_point_of_the_table(num_seqs: int, context: int) -> None:
    num = min(STEPS.steps_alike(num_seqs, context), 50)
    first, growth = STEPS.decode(num_seqs, context), STEPS.growth(num_seqs, context)
    for step in range(num):
        assert STEPS.decode(num_seqs, context + step * num_seqs) == pytest.approx(first + step * growth, rel=1e-12)


@given(st.integers(1, 300), st.integers(0, 400))
def test_unloaded_e2e_is_the_sum_of_its_steps(prompt: int, outputs: int) -> None:
    decode = sum(STEPS.decode(1, prompt + i) for i in range(max(0, outputs - 1)))
    assert unloaded_e2e(PROFILE, prompt, outputs) == pytest.approx(unloaded_ttft(PROFILE, prompt) + decode, rel=1e-9)


def test_precision_scales_kernels_and_not_the_host() -> None:
    plain = EngineProfile("p", "t", StepCoefficients(a=0.01), StepCoefficients(a=0.02), host_per_sequence=0.001)
    half = EngineProfile(
        "p", "t", plain.decode, plain.mixed, host_per_sequence=0.001, precision=Precision("a test", "fp8", 0.5)
    )
    assert StepTime(half).decode(3, 0) == pytest.approx(0.005 + 0.003)
    assert StepTime(half).mixed(10, 2, 3, 0, 0.0, 0.0) == pytest.approx(0.01 + 0.005)

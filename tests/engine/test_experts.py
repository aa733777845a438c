"""What a mixture of experts adds: the busiest rank and the way to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.experts import Experts
from plimsoll.engine.features import AllToAll, MixtureOfExperts, Router, Topology
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.engine.steptime import StepTime

MOE = MixtureOfExperts(
    source="a test",
    num_ranks=8,
    experts_per_token=8,
    expert_share=0.5,
    skew=((512, 1.0), (2048, 1.24)),
    num_layers=10,
    inside=AllToAll(1e-4, 1e-6),
    across=AllToAll(3e-4, 4e-6),
)


def test_argmax_is_as_measured_and_flat_outside() -> None:
    assert [Experts(MOE).imbalance(tokens) for tokens in (1, 512, 1280, 2048, 9000)] == pytest.approx(
        [1.0, 1.0, 1.12, 1.24, 1.24]
    )


def test_probabilistic_is_what_dice_do() -> None:
    draws = np.random.default_rng(1).multinomial(2048 * 8, [1 / 8] * 8, size=2000)
    measured = (draws.max(axis=1) / draws.mean(axis=1)).mean()
    said = Experts(replace(MOE, router=Router.PROBABILISTIC)).imbalance(2048)
    assert 0 < measured - 1 < said - 1 < 1.6 * (measured - 1), "a bound, not far above"


@given(st.integers(1, 10_000))
def test_wait_aware_is_even_but_for_rounding(tokens: int) -> None:
    for router in Router:
        assert Experts(replace(MOE, router=router)).imbalance(tokens) >= 1.0
    assert Experts(replace(MOE, router=Router.WAIT_AWARE)).imbalance(tokens) < 1.0 + 8 / (tokens * 8) + 1e-12


def test_what_a_step_costs_by_hand() -> None:
    plain = EngineProfile("p", "t", StepCoefficients(a=0.02), StepCoefficients(a=0.04), moe=MOE)
    assert StepTime(plain).decode(64, 0) == pytest.approx(0.02 + 10 * (1e-4 + 64e-6))
    mixed = StepTime(plain).mixed(2000, 1, 48, 0, 0.0, 0.0)
    assert mixed == pytest.approx(0.04 + 0.5 * 0.04 * 0.24 + 10 * (1e-4 + 2048e-6))
    across = replace(plain, moe=replace(MOE, topology=Topology.ACROSS))
    assert StepTime(across).decode(64, 0) == pytest.approx(0.02 + 10 * (3e-4 + 256e-6))
    assert StepTime(across).growth(64) == StepTime(plain).growth(64)

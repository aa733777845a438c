"""Step times: the progression that jumps rely on, and the unloaded predictions as sums of steps."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime, unloaded_e2e, unloaded_tpot, unloaded_ttft

PROFILES = [profiles.load(name) for name in profiles.names()]


@given(st.sampled_from(PROFILES), st.integers(1, 256), st.integers(0, 300_000))
def test_decode_steps_grow_in_arithmetic_progression(profile: EngineProfile, num_seqs: int, context: int) -> None:
    """Up to the next point of the table, where a profile has one."""
    steps = StepTime(profile)
    assume(steps.steps_alike(num_seqs, context) > 1)
    grown = steps.decode(num_seqs, context) + steps.growth(num_seqs, context)
    assert steps.decode(num_seqs, context + num_seqs) == pytest.approx(grown, abs=1e-15, rel=1e-12)


@given(st.sampled_from(PROFILES), st.integers(1, 4000), st.integers(0, 4000))
def test_unloaded_e2e_is_the_sum_of_its_steps(profile: EngineProfile, prompt: int, outputs: int) -> None:
    steps = StepTime(profile)
    decode = sum(steps.decode(1, prompt + i) for i in range(max(0, outputs - 1)))
    assert unloaded_e2e(profile, prompt, outputs) == pytest.approx(unloaded_ttft(profile, prompt) + decode, rel=1e-9)


@given(st.sampled_from(PROFILES), st.integers(1, 20_000), st.integers(0, 20_000))
def test_cached_tokens_never_slow_a_request_down(profile: EngineProfile, prompt: int, cached: int) -> None:
    budget = profile.max_batched_tokens
    aligned = min(cached, prompt - 1) // budget * budget  # whole chunks: fewer steps, each no longer than before
    assert 0 < unloaded_ttft(profile, prompt, aligned) <= unloaded_ttft(profile, prompt)


def test_a_prompt_cached_whole_still_computes_its_last_token() -> None:
    profile = profiles.load("h100-llama70b-tp4")
    assert unloaded_ttft(profile, 1000, 1000) == unloaded_ttft(profile, 1000, 999) > 0


def test_published_figures() -> None:
    """Decode of Llama-70B on H100 TP4 by hand, from the kernel fits that its profile names."""
    by_hand = 1.05 * (13.48 + 0.03821 * 64 + 0.906 + 0.00374 * 64 + 2.5587e-5 * 64_000) * 1e-3
    assert StepTime(profiles.load("h100-llama70b-tp4")).decode(64, 64_000) == pytest.approx(by_hand, rel=1e-9)
    assert unloaded_tpot(profiles.load("tiny-vllm-cpu"), 0) == pytest.approx(0.0072)

"""Fitting engines: what a known engine did gives its coefficients back, and what cannot be told is refused."""

import msgspec
import numpy as np
import pytest
from scipy.optimize import nnls

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.engine.steptime import StepTime, unloaded_ttft
from plimsoll.errors import ProfileError
from plimsoll.sim.enginefit import errors_of, fit, num_together
from plimsoll.sim.randomness import stream
from plimsoll.sim.replaying import EngineRun, Seen, causes, replay
from plimsoll.sim.stepfit import StepTiming, fit_steps, nonnegative

TRUE = EngineProfile(
    "true",
    "test",
    decode=StepCoefficients(a=0.008, f=0.0004, g=1e-6),
    mixed=StepCoefficients(a=0.011, e=8e-5, f=0.0004, g=1e-6, pw=3e-8),
    max_num_seqs=8,
    max_batched_tokens=512,
    prefix_caching=False,
)


def asked(name: str, num: int, gap: float, seed: int) -> EngineRun:
    """Requests that nobody has answered yet."""
    draws = stream(seed, "asked", name)
    at = np.cumsum(draws.exponential(gap, num)) if gap else np.zeros(num)
    prompts, outputs = draws.integers(16, 1500, num), draws.integers(4, 60, num)
    return EngineRun(name, tuple(Seen(float(at[i]), int(prompts[i]), int(outputs[i]), 1.0) for i in range(num)))


def answered(run: EngineRun, profile: EngineProfile = TRUE, noise: float = 0.0) -> EngineRun:
    """The same as that engine serves it."""
    modelled = replay(run, profile, [-1] * len(run.seen))
    draws = stream(7, "noise", run.name)
    seen = []
    for request, times in zip(run.seen, modelled, strict=True):
        ttft = times.ttft * float(np.exp(noise * draws.standard_normal()))
        gaps = tuple(gap * float(np.exp(noise * draws.standard_normal())) for gap in times.gaps)
        ended = request.arrived_at + ttft + sum(gaps)
        seen.append(msgspec.structs.replace(request, ttft=ttft, gaps=gaps, ended_at=ended))
    return EngineRun(run.name, tuple(seen))


def test_a_known_engine_is_found_again() -> None:
    runs = [answered(asked("busy", 25, 0.1, 1), noise=0.03), answered(asked("idle", 12, 0.6, 2), noise=0.03)]
    found = fit(runs, msgspec.structs.replace(TRUE, decode=StepCoefficients(a=1.0), mixed=StepCoefficients(a=1.0)), 220)
    assert found.loss < 0.06
    ours, theirs = StepTime(found.profile), StepTime(TRUE)
    for num, context in ((1, 500), (4, 3000), (8, 8000)):
        assert ours.decode(num, context) == pytest.approx(theirs.decode(num, context), rel=0.12)
    mine, real = (times.mixed(512, 1, 2, 2000, 512 * 256.0, 0.0) for times in (ours, theirs))
    assert mine == pytest.approx(real, rel=0.12)
    assert found.profile.fitted_max_tokens == 512
    assert found.profile.max_num_seqs == 8
    unseen = answered(asked("later", 40, 0.15, 3))
    errors = errors_of(unseen, found.profile)
    assert errors.worst(errors.ttft) < 0.15
    assert errors.worst(errors.itl) < 0.15


def only_means(run: EngineRun) -> EngineRun:
    """As a gateway's log has it: of an answer's gaps nothing but their mean."""
    seen = [
        msgspec.structs.replace(each, gaps=(), tpot=sum(each.gaps) / len(each.gaps) if each.gaps else 0.0)
        for each in run.seen
    ]
    return EngineRun(run.name, tuple(seen))


def test_means_are_held_against_means() -> None:
    """Single gaps vary more than answers' means of them: the engine that was seen is not off by anything."""
    errors = errors_of(only_means(answered(asked("busy", 60, 0.1, 1))), TRUE)
    assert [ours for _, _, ours in errors.itl] == pytest.approx([theirs for _, theirs, _ in errors.itl])


def test_a_busy_log_tells_lengths_and_company_apart() -> None:
    """At four fifths of what the engine serves, from a start far off: near saturation a dear token makes queues."""
    log = only_means(answered(asked("log", 600, 0.13, 5)))
    found = fit(
        [log], msgspec.structs.replace(TRUE, decode=StepCoefficients(a=1.0), mixed=StepCoefficients(a=1.0)), 180
    )
    assert found.loss < 0.03
    assert 60 < found.num_evaluations <= 195
    ours, theirs = StepTime(found.profile), StepTime(TRUE)
    for num in (2, 5, 8):
        assert ours.decode(num, 900 * num) == pytest.approx(theirs.decode(num, 900 * num), rel=0.12)
    for tokens in (300, 1200):
        assert unloaded_ttft(found.profile, tokens) == pytest.approx(unloaded_ttft(TRUE, tokens), rel=0.12)
    later = errors_of(only_means(answered(asked("later", 400, 0.13, 6))), found.profile)
    assert later.worst(later.ttft) < 0.1
    assert later.worst(later.itl) < 0.1


def test_the_frontend_is_told_from_steps() -> None:
    """What a request spends outside of steps delays nobody else's tokens: runs with company tell it from a step's a."""
    true = msgspec.structs.replace(TRUE, frontend=0.006)
    runs = [answered(asked("busy", 40, 0.08, 1), true), answered(asked("idle", 12, 0.6, 2), true)]
    found = fit(runs, TRUE, 400)
    assert found.loss < 0.03
    assert found.profile.frontend == pytest.approx(0.006, rel=0.35)
    alone = unloaded_ttft(found.profile, 300)
    assert alone == pytest.approx(unloaded_ttft(true, 300), rel=0.05)
    assert unloaded_ttft(true, 300) == pytest.approx(unloaded_ttft(TRUE, 300) + 0.006)


def test_closed_loops_are_known_and_played_closed() -> None:
    two, at = [], [0.0, 0.0]
    for number in range(12):  # two workers, each sends its next right after its last has ended
        worker = number % 2
        ended = at[worker] + 0.1 + 0.03 * (number % 3)
        two.append(Seen(at[worker], 64, 4, 0.05, (0.02, 0.02, 0.02), ended))
        at[worker] = ended + 0.001
    run = EngineRun("closed", tuple(sorted(two, key=lambda seen: seen.arrived_at)))
    after = causes(run)
    assert after.count(-1) == 2
    assert num_together(run) == 2
    slow = msgspec.structs.replace(TRUE, decode=StepCoefficients(a=0.2), mixed=StepCoefficients(a=0.2, e=1e-6))
    assert max(times.ttft for times in replay(run, slow, after)) < 0.45  # nobody queues behind what came too soon
    assert max(times.ttft for times in replay(run, slow, [-1] * 12)) > 0.45
    assert set(causes(asked("open", 20, 0.5, 1))) == {-1}


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (asked("few", 5, 0.1, 1), "5 requests are too few"),
        (
            EngineRun("same", tuple(Seen(float(i), 100, 5, 0.1, (), i + 2.0) for i in range(30))),
            "prompts of 100 to 100",
        ),
        (EngineRun("alone", tuple(Seen(9.0 * i, 50 + i * 9, 5, 0.1, (), 9.0 * i + 1) for i in range(30))), "together"),
    ],
)
def test_what_cannot_be_told_is_refused(run: EngineRun, told: str) -> None:
    with pytest.raises(ProfileError, match=told):
        fit([run], TRUE, 20)


def timings() -> list[StepTiming]:
    times = StepTime(TRUE)
    found = [StepTiming(0, n, n * c, 0.0, times.decode(n, n * c)) for n in (1, 2, 4, 8) for c in (100, 1000, 4000)]
    for tokens in (16, 128, 512):
        for num in (0, 4, 8):
            work = tokens**2 / 2
            seconds = times.mixed(tokens, 1, num, 900 * num, work, 0.0)
            found.append(StepTiming(tokens, num, 900 * num, work, seconds))
    return found


def test_timings_of_steps_give_the_coefficients_back() -> None:
    found = fit_steps(timings(), TRUE)
    for part, names in (("decode", "afg"), ("mixed", ("a", "e", "pw"))):
        for name in names:
            got, true = getattr(getattr(found.profile, part), name), getattr(getattr(TRUE, part), name)
            assert got == pytest.approx(true, rel=1e-6)
    assert found.parts[0].worst_error < 1e-9
    assert found.profile.fitted_max_tokens == 520
    assert found.profile.fitted_max_context == 32_000
    with pytest.raises(ProfileError, match="at least 8 of each"):
        fit_steps(timings()[:12], TRUE)


def test_least_squares_are_those_of_scipy() -> None:
    for seed in range(20):
        draws = stream(seed, "nnls")
        matrix, wanted = draws.normal(size=(30, 5)), draws.normal(size=30)
        assert nonnegative(matrix, wanted) == pytest.approx(nnls(matrix, wanted)[0], abs=1e-8)

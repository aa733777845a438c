"""Fits the step-time coefficients of an engine to what clients saw of it, by playing its runs on the model.

The loss of a run is the mean distance of sorted times to first token and of quantiles of the gaps between tokens, in
logarithms: 0.1 is 10 %. It is made small by a simplex (`descent.py`) over the logarithms of eight coefficients, all
positive: of a decode step a, f, g; of a mixed one a, e, f, pw (its g is that of decode); and the frontend's time of a
request. The latter is told from a mixed step's by what it does not delay: the others' tokens, and in a closed loop who
comes while a step runs waits less of it.

Runs of hundreds of requests tell more (`bylength.py`). There damped least squares comes first, on the beginnings of the
runs, then on the whole: under load, where a dear token makes queues without end, a simplex alone does not get there.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.errors import ProfileError
from plimsoll.sim.bylength import BEGINNING, Lengths, between, tells_lengths
from plimsoll.sim.descent import Floats, by_simplex, by_slopes
from plimsoll.sim.replaying import EngineRun, Modelled, causes, replay

LEVELS: Final = (0.25, 0.5, 0.75, 0.9)
"""Quantiles of gaps that are fitted."""
_SHORTEST: Final = 1e-4  # s: tokens that come in one event have no gap; none of a step is so short
_FEWEST: Final = 20  # requests
_TOO_LONG: Final = 10.0  # the loss of coefficients with which an engine cannot run


class Errors(Struct, frozen=True):
    """Measured and modelled of some requests, s. Gaps are None where none was seen."""

    name: str
    num: int
    closed: bool  # played as a closed loop
    ttft: tuple[tuple[float, float, float], ...]  # (quantile, measured, modelled)
    itl: tuple[tuple[float, float, float], ...]
    noisy: str = ""

    def worst(self, figures: Sequence[tuple[float, float, float]]) -> float:
        """The largest relative error."""
        return max((abs(ours / theirs - 1.0) for _, theirs, ours in figures if theirs > 0.0), default=0.0)


class Fit(Struct, frozen=True):
    """A fitted profile and how well it plays what it was fitted on."""

    profile: EngineProfile
    loss: float
    num_evaluations: int
    errors: tuple[Errors, ...]


def fit(
    runs: Sequence[EngineRun],
    base: EngineProfile,
    evaluations: int = 300,
    told: Callable[[int, float], None] = lambda _num, _loss: None,
) -> Fit:
    """The profile like `base` whose step times play the runs best. Raises ProfileError where they say too little.

    `told` hears of each time that they were played, by number, and its loss (inf where only slopes were asked for).
    """
    _refuse(runs)
    after = [causes(run) for run in runs]
    seen = [_Seen(run) for run in runs]
    count = 0

    def played() -> None:
        nonlocal count
        count += 1
        told(count, inf)

    def loss(point: Floats) -> float:
        nonlocal count
        count += 1
        try:
            profile = _profile(base, point)
            total = sum(
                each.distance(replay(run, profile, places)) for each, run, places in zip(seen, runs, after, strict=True)
            )
        except ProfileError:
            return _TOO_LONG
        told(count, total / len(runs))
        return total / len(runs)

    start, left, size = _start(runs), evaluations, 0.4
    if any(tells_lengths(run) for run in runs):
        start, size = min(start, _by_lengths(base, runs, start, evaluations // 3, played), key=loss), 0.1
        left = max(evaluations // 3, evaluations - count)
    best, value = by_simplex(loss, start, left, size)
    profile = _ranged(_profile(base, best), runs)
    return Fit(profile, value, count, tuple(errors_of(run, profile) for run in runs))


def _by_lengths(
    base: EngineProfile, runs: Sequence[EngineRun], start: Floats, evaluations: int, played: Callable[[], None]
) -> Floats:
    """Where damped least squares over what prompts of each length waited comes to from there, twice so often tried."""
    many = [run for run in runs if tells_lengths(run)]
    beginnings = [EngineRun(run.name, run.seen[:BEGINNING]) for run in many]
    best = by_slopes(_Residuals(base, beginnings, played).of, start, evaluations)
    if any(len(run.seen) > BEGINNING for run in many):
        best = by_slopes(_Residuals(base, many, played).of, best, evaluations)
    return best


class _Residuals:
    """How far played runs are from what was seen of them, by quantiles, in logarithms."""

    def __init__(self, base: EngineProfile, runs: Sequence[EngineRun], played: Callable[[], None]) -> None:
        self._base, self._played = base, played
        self._runs = [(run, causes(run), Lengths(run)) for run in runs]
        self._seen = [lengths.figures(run.seen) for run, _, lengths in self._runs]

    def of(self, point: Floats) -> Floats | None:
        """At those coefficients; None where an engine cannot run with them."""
        self._played()
        try:
            profile = _profile(self._base, point)
            played = [lengths.figures(replay(run, profile, after)) for run, after, lengths in self._runs]
        except ProfileError:
            return None
        return np.concatenate(played) - np.concatenate(self._seen)


def _refuse(runs: Sequence[EngineRun]) -> None:
    """What cannot be told apart from these runs is not guessed."""
    seen = [each for run in runs for each in run.seen]
    if len(seen) < _FEWEST:
        raise ProfileError(f"{len(seen)} requests are too few to fit an engine: at least {_FEWEST}")
    prompts = [each.prompt_tokens for each in seen]
    if max(prompts) < 2 * min(prompts):
        raise ProfileError(
            f"prompts of {min(prompts)} to {max(prompts)} tokens do not tell a token's cost from a step's: vary them "
            "by a factor of 2 or more"
        )
    if max(num_together(run) for run in runs) < 2:
        raise ProfileError("no two requests ran together: what a further sequence costs cannot be told")


def num_together(run: EngineRun) -> int:
    """The most requests that were under way at once, as their client saw it."""
    events = sorted([(each.arrived_at, 1) for each in run.seen] + [(each.ended_at, -1) for each in run.seen])
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def _start(runs: Sequence[EngineRun]) -> Floats:
    """A rough guess: short gaps are a step, and what first tokens cost a prompt token is the rest."""
    seen = [each for run in runs for each in run.seen]
    gaps = [gap for run in runs for gap in between(run.seen, single=run.has_gaps) if gap > _SHORTEST]
    step = float(np.quantile(gaps, 0.1)) if gaps else 0.01
    costs = [each.ttft / each.prompt_tokens for each in seen if each.prompt_tokens > 64]
    token = float(np.quantile(costs or [step], 0.1))
    context = max(each.prompt_tokens + each.output_tokens for each in seen)
    decode = [step * 0.8, step * 0.1, step * 0.2 / context]
    mixed = [step, token * 0.8, step * 0.1, token * 0.2 / context]
    return np.log([*decode, *mixed, step * 0.3])


def _profile(base: EngineProfile, point: Floats) -> EngineProfile:
    da, df, dg, ma, me, mf, pw, frontend = (float(value) for value in np.exp(point))
    return msgspec.structs.replace(
        base,
        decode=StepCoefficients(a=da, f=df, g=dg),
        mixed=StepCoefficients(a=ma, e=me, f=mf, g=dg, pw=pw),
        host_factor=1.0,
        host_per_sequence=0.0,
        frontend=frontend,
    )


def _ranged(profile: EngineProfile, runs: Sequence[EngineRun]) -> EngineProfile:
    """With the range that the runs covered: beyond it a prediction is extrapolation, and is said to be."""
    longest = max(each.prompt_tokens for run in runs for each in run.seen)
    context = max(num_together(run) * max(each.prompt_tokens + each.output_tokens for each in run.seen) for run in runs)
    tokens = min(profile.max_batched_tokens, longest)
    return msgspec.structs.replace(profile, fitted_max_tokens=tokens, fitted_max_context=context)


class _Seen:
    """What a run measured, ready to be compared with."""

    def __init__(self, run: EngineRun) -> None:
        self._ttft = np.log(np.sort([max(each.ttft, _SHORTEST) for each in run.seen]))
        self._single = run.has_gaps
        gaps = between(run.seen, single=self._single)
        self._gaps = _levels(gaps) if gaps else None

    def distance(self, modelled: Sequence[Modelled]) -> float:
        ttft = np.log(np.sort([max(each.ttft, _SHORTEST) for each in modelled]))
        found = float(np.mean(np.abs(ttft - self._ttft)))
        gaps = between(modelled, single=self._single)
        if self._gaps is None or not gaps:
            return found
        return (found + float(np.mean(np.abs(_levels(gaps) - self._gaps)))) / 2.0


def _levels(gaps: Sequence[float]) -> Floats:
    return np.log(np.maximum(np.quantile(gaps, LEVELS), _SHORTEST))


def errors_of(run: EngineRun, profile: EngineProfile, levels: Sequence[float] = (0.5, 0.9)) -> Errors:
    """How a profile plays a run, at some quantiles."""
    after = causes(run)
    modelled = replay(run, profile, after)
    return _errors(run.name, [run], [modelled], levels, closed=any(cause >= 0 for cause in after))


def pooled_errors(
    name: str, runs: Sequence[EngineRun], profile: EngineProfile, levels: Sequence[float] = (0.5, 0.9)
) -> Errors:
    """The same of several runs taken together."""
    return _errors(name, runs, [replay(run, profile, causes(run)) for run in runs], levels, closed=False)


def _errors(
    name: str,
    runs: Sequence[EngineRun],
    modelled: Sequence[Sequence[Modelled]],
    levels: Sequence[float],
    *,
    closed: bool,
) -> Errors:
    ttft = [each.ttft for run in runs for each in run.seen]
    ours = [each.ttft for run in modelled for each in run]
    gaps = [gap for run in runs for gap in between(run.seen, single=run.has_gaps)]
    our_gaps = [gap for run, its in zip(runs, modelled, strict=True) for gap in between(its, single=run.has_gaps)]
    return Errors(
        name=name,
        num=len(ttft),
        closed=closed,
        ttft=tuple((q, float(np.quantile(ttft, q)), float(np.quantile(ours, q))) for q in levels),
        itl=tuple(
            (q, float(np.quantile(gaps, q)), float(np.quantile(our_gaps, q))) for q in levels if gaps and our_gaps
        ),
        noisy="; ".join(run.noisy for run in runs if run.noisy),
    )

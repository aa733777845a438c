"""Fits the step-time coefficients of an engine to what clients saw of it, by playing its runs on the model.

The loss of a run is the mean distance of sorted times to first token and of quantiles of the gaps between tokens, in
logarithms: 0.1 is 10 %. It is made small by Nelder and Mead's simplex (1965) over the logarithms of eight coefficients,
all positive: of a decode step a, f, g; of a mixed one a, e, f, pw (its g is that of decode); and the frontend's time of
a request. The latter is told from a mixed step's by what it does not delay: the others' tokens, and in a closed loop
who comes while a step runs waits less of it.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.errors import ProfileError
from plimsoll.sim.replaying import EngineRun, Modelled, causes, replay

LEVELS: Final = (0.25, 0.5, 0.75, 0.9)
"""Quantiles of gaps that are fitted."""
_SHORTEST: Final = 1e-4  # s: tokens that come in one event have no gap; none of a step is so short
_FEWEST: Final = 20  # requests
_TOO_LONG: Final = 10.0  # the loss of coefficients with which an engine cannot run

Floats = NDArray[np.float64]


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
    """The profile like `base` whose step times play the runs best. Raises ProfileError where they say too little."""
    _refuse(runs)
    after = [causes(run) for run in runs]
    seen = [_Seen(run) for run in runs]
    count = 0

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

    best, value = _simplex(loss, _start(runs), evaluations)
    profile = _ranged(_profile(base, best), runs)
    return Fit(profile, value, count, tuple(errors_of(run, profile) for run in runs))


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
    gaps = [gap for each in seen for gap in each.gaps if gap > _SHORTEST]
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
        gaps = [gap for each in run.seen for gap in each.gaps]
        self._gaps = _levels(gaps) if gaps else None

    def distance(self, modelled: Sequence[Modelled]) -> float:
        ttft = np.log(np.sort([max(each.ttft, _SHORTEST) for each in modelled]))
        found = float(np.mean(np.abs(ttft - self._ttft)))
        gaps = [gap for each in modelled for gap in each.gaps]
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
    gaps = [gap for run in runs for each in run.seen for gap in each.gaps]
    ours = [each.ttft for run in modelled for each in run]
    our_gaps = [gap for run in modelled for each in run for gap in each.gaps]
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


def _simplex(loss: Callable[[Floats], float], start: Floats, evaluations: int) -> tuple[Floats, float]:
    """The best point found, and its loss."""
    points = [start] + [start + 0.4 * unit for unit in np.eye(len(start))]
    values = [loss(point) for point in points]
    used = len(points)
    while used < evaluations:
        order = np.argsort(values, kind="stable")
        points, values = [points[i] for i in order], [values[i] for i in order]
        centre = np.mean(points[:-1], axis=0)
        tried = centre + (centre - points[-1])
        value = loss(tried)
        used += 1
        if value < values[0]:
            farther = centre + 2.0 * (centre - points[-1])
            other = loss(farther)
            used += 1
            points[-1], values[-1] = (farther, other) if other < value else (tried, value)
        elif value < values[-2]:
            points[-1], values[-1] = tried, value
        else:
            nearer = centre + 0.5 * ((tried if value < values[-1] else points[-1]) - centre)
            other = loss(nearer)
            used += 1
            if other < min(value, values[-1]):
                points[-1], values[-1] = nearer, other
            else:
                points = [points[0]] + [points[0] + 0.5 * (point - points[0]) for point in points[1:]]
                values = [values[0]] + [loss(point) for point in points[1:]]
                used += len(points) - 1
    best = int(np.argmin(values))
    return points[best], values[best]

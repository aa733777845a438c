"""How much more can be taken: for each seed the load at which the first promise breaks, by halving on common dice.

The same dice at every load: a seed's arrivals only come closer (or more of a trace's), so that one break is compared
with the next under the same luck, and the spread between seeds is the luck itself.
"""

from collections.abc import Sequence
from math import exp, log, sqrt
from typing import Final

from msgspec import Struct

from plimsoll.sim.estimate import Estimate, estimate
from plimsoll.sim.trial import FEW, Breach, Key, Trial

TOLERANCE: Final = 0.02
"""A break is known when it lies between two loads so near to each other."""
MOST: Final = 32.0
"""Beyond this factor, and below its inverse, nothing is searched."""
_WIDE: Final = 1.5
_NEAR: Final = 1.06


class Search:
    """One seed's search: ask `next`, run that load, `tell`. Starts at 1, or where others have found their break."""

    def __init__(self, seed: int, start: float = 1.0) -> None:
        self.seed = seed
        self.trials: list[Trial] = []
        self._start = start
        self._step = _WIDE if start == 1.0 else _NEAR
        self._holds = 0.0  # the highest load at which all held; 0: none known
        self._breaks = 0.0  # the lowest at which something broke; 0: none known

    def next(self) -> float | None:
        """The next factor to run; None when the search has ended."""
        if not self._holds and not self._breaks:
            return self._start
        if not self._breaks:
            return self._holds * self._widen() if self._holds < MOST else None
        if not self._holds:
            return self._breaks / self._widen() if self._breaks > 1.0 / MOST else None
        if self._breaks / self._holds <= 1.0 + TOLERANCE:
            return None
        return sqrt(self._breaks * self._holds)

    def tell(self, trial: Trial) -> None:
        """What came of the factor that was asked."""
        self.trials.append(trial)
        if trial.broken:
            self._breaks = min(self._breaks or trial.factor, trial.factor)
        else:
            self._holds = max(self._holds, trial.factor)

    def _widen(self) -> float:
        """The next step outwards: near what others found steps grow, so that a bad guess costs little."""
        return float(min(_WIDE, self._step ** (2.0 ** max(0, len(self.trials) - 1))))

    @property
    def factor(self) -> float | None:
        """Where the first promise breaks; None where the search found no such load."""
        return sqrt(self._breaks * self._holds) if self._breaks and self._holds else None

    @property
    def at_break(self) -> Trial | None:
        """The trial at the lowest load that broke."""
        broken = [trial for trial in self.trials if trial.broken]
        return min(broken, key=lambda trial: trial.factor) if broken else None


class Line(Struct, frozen=True):
    """One promise over the loads that were tried."""

    key: Key
    now: float | None  # burn at factor 1, over all seeds; None: nothing was judged, or 1 was not run
    at_break: float | None  # burn at the load where the first promise broke
    factor: float | None  # where this one reaches burn 1, interpolated; None: not within what was tried
    beyond: float | None  # it holds at least up to here, where nothing that was tried broke it
    under: float | None  # it breaks already here, the lowest load that was tried
    num: int  # judged at the break, all seeds
    is_thin: bool  # too few judged to see anything but a gross break


class Headroom(Struct, frozen=True):
    """The answer. `factor` is on the rate of `names`; its interval is over seeds, at 95 %, of its geometric mean."""

    names: tuple[str, ...]
    factor: Estimate
    rate_now: float  # requests a second of `names` at factor 1
    rate_total: float  # of all
    seeds: tuple[int, ...]
    first: tuple[tuple[str, int], ...]  # which promise broke first ("tenant tier objective") in how many seeds
    breach: Breach | None  # how the first promise broke, in the seed nearest to the mean
    duration: float  # s simulated a run
    lines: tuple[Line, ...]  # in the order in which they break
    num_trials: int
    complete: bool


def headroom(searches: Sequence[Search], names: tuple[str, ...], more: Sequence[Trial], *, complete: bool) -> Headroom:
    """The answer from what was tried; `more` are trials beyond the break, which show what breaks next."""
    ended = [search for search in searches if search.factor is not None]
    logs = estimate([log(search.factor) for search in ended if search.factor is not None])
    mean, low, high = (None if value is None else exp(value) for value in (logs.mean, logs.low, logs.high))
    trials = [*(trial for search in searches for trial in search.trials), *more]
    chosen, others = _rates(trials)
    return Headroom(
        names=names,
        factor=Estimate(mean, low, high, tuple(search.factor for search in searches)),
        rate_now=chosen,
        rate_total=chosen + others,
        seeds=tuple(search.seed for search in searches),
        first=_first(ended),
        breach=_how(_typical(ended, mean)),
        duration=trials[0].duration if trials else 0.0,
        lines=_lines(trials, mean),
        num_trials=len(trials),
        complete=complete and len(ended) == len(searches),
    )


def _rates(trials: Sequence[Trial]) -> tuple[float, float]:
    """Requests a second of the chosen at factor 1, and of the others."""
    span = sum(trial.duration for trial in trials) or 1.0
    chosen = sum(trial.num_chosen / trial.factor for trial in trials)
    return chosen / span, sum(trial.num - trial.num_chosen for trial in trials) / span


def _typical(ended: Sequence[Search], mean: float | None) -> Trial | None:
    if not ended or mean is None:
        return None
    nearest = min(ended, key=lambda search: (abs(log((search.factor or 1.0) / mean)), search.seed))
    return nearest.at_break


def _how(trial: Trial | None) -> Breach | None:
    """How the promise that broke first did so."""
    if trial is None or not trial.broken:
        return None
    key = trial.broken[0].key
    return next((breach for breach in trial.breaches if breach.key == key), None)


def _first(ended: Sequence[Search]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for search in ended:
        trial = search.at_break
        if trial is not None and trial.broken:
            key = trial.broken[0].key
            name = f"{key.tenant} {key.tier} {key.objective}"
            counts[name] = counts.get(name, 0) + 1
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _lines(trials: Sequence[Trial], mean: float | None) -> tuple[Line, ...]:
    keys = sorted({kept.key for trial in trials for kept in trial.kept})
    lines = [_line(key, trials, mean) for key in keys]
    return tuple(sorted(lines, key=lambda line: (line.factor or line.under or 1e9, -(line.at_break or 0.0), line.key)))


def _line(key: Key, trials: Sequence[Trial], mean: float | None) -> Line:
    points = _pooled(key, trials)
    at_break = min(points, key=lambda point: abs(log(point[0] / mean))) if points and mean else None
    crossing = _crossing([(factor, burn) for factor, burn, _, _ in points])
    ends = [(factor, burn > 1.0) for factor, burn, _, _ in points]
    now = next((burn for factor, burn, _, _ in points if factor == 1.0), None)
    return Line(
        key=key,
        now=now,
        at_break=at_break[1] if at_break else None,
        factor=crossing,
        beyond=ends[-1][0] if ends and not ends[-1][1] else None,
        under=ends[0][0] if ends and all(broken for _, broken in ends) else None,
        num=at_break[2] if at_break else 0,
        is_thin=at_break[3] if at_break else True,
    )


def _pooled(key: Key, trials: Sequence[Trial]) -> list[tuple[float, float, int, bool]]:
    """(factor, burn, judged, thin) by factor, rising: seeds at nearly one load are added up."""
    groups: dict[int, list[tuple[float, int, int, float]]] = {}
    for trial in trials:
        for kept in trial.kept:
            if kept.key == key and kept.num_judged:
                group = groups.setdefault(round(log(trial.factor) / TOLERANCE), [])
                group.append((trial.factor, kept.num_judged, kept.num_bad, kept.allowed_ratio))
    points = []
    for _, group in sorted(groups.items()):
        num, bad = sum(each[1] for each in group), sum(each[2] for each in group)
        allowed = sum(each[1] * each[3] for each in group)
        burn = bad / allowed if allowed > 0.0 else (float("inf") if bad else 0.0)
        factor = exp(sum(log(each[0]) for each in group) / len(group))
        points.append((1.0 if abs(factor - 1.0) < 1e-9 else factor, burn, num, allowed / len(group) < FEW))
    return points


def _crossing(points: Sequence[tuple[float, float]]) -> float | None:
    """The lowest load from which on burn stays above 1, between two that were tried."""
    above = len(points)
    while above > 0 and points[above - 1][1] > 1.0:
        above -= 1
    if above == len(points) or above == 0:
        return None
    (low, small), (high, large) = points[above - 1], points[above]
    part = (1.0 - small) / (large - small) if large < float("inf") and large > small else 0.5
    return exp(log(low) + part * (log(high) - log(low)))

"""How much budget the next 24 hours will spend, and when it will be gone: each with an 80 % band, or a state.

Consumption is a rhythm (`rhythm.py`: hour of the week) times a level. The level is a running mean over whole days,
whose half-life and trend are those that would have done best on this very history. The band comes from what such
forecasts would have missed by: their errors, as scores of an over-dispersed count (`overdispersed.py`), say how wide
it is and how lopsided. A history that is too short or too thin gives a state and no numbers.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from plimsoll.analytics.hindsight import Hindsight
from plimsoll.analytics.overdispersed import count_at
from plimsoll.analytics.rhythm import WEEKLY_FROM, rhythm, slots
from plimsoll.slo.budget import HourCount

Floats = npt.NDArray[np.float64]
Curves = tuple[Floats, Floats, Floats]

HOUR: Final = 3600
DAY: Final = 24
"""Hours."""
MAX_DAYS: Final = 70
"""Older history says nothing of tomorrow."""
MIN_DAYS: Final = 4
"""Whole days of history before anything is forecast."""
MIN_JUDGED: Final = 100
QUIET_AFTER: Final = 7 * DAY
"""Hours without anything judged, after which nothing is expected to be."""
FARTHEST: Final = 31 * DAY
"""Hours that exhaustion is looked for where no end is given."""


class Step(Struct, frozen=True):
    """A change that is known: from `at` on consumption is `factor` times what it was."""

    at: float
    factor: float


class Pause(NamedTuple):
    """Known beforehand: of what arrives in [from_at, until_at) nothing is spent."""

    from_at: float
    until_at: float


class ForecastState(StrEnum):
    """Whether there are numbers, and why not."""

    FORECAST = "forecast"
    NO_TRAFFIC = "no traffic"  # nothing judged at all, or not for a week
    COLD_START = "cold start"  # fewer than four whole days since the first judged event
    TOO_FEW = "too few"  # judged events
    ALL_FAILURES = "all failures"  # nothing was ever good: there is no usual


class Band(Struct, frozen=True):
    """Between `low` and `upper` with 80 %; as likely above `expected` as below."""

    low: float
    expected: float
    upper: float


class Exhaustion(Struct, frozen=True):
    """Hours until the budget is gone, soonest with `low`; None: not before the end that was given."""

    low: float | None
    expected: float | None
    upper: float | None


class Forecast(Struct, frozen=True):
    """`next_day` in events of the next 24 hours. Both are None unless the state is "forecast"."""

    state: ForecastState
    next_day: Band | None = None
    hours_to_exhaustion: Exhaustion | None = None  # None too where no `remaining` was given
    basis: str = ""  # what it rests on, in words


def forecast(
    hours: Sequence[HourCount],
    now: float,
    *,
    zone: str = "UTC",
    remaining: int | None = None,
    until: float | None = None,
    steps: Sequence[Step] = (),
    pauses: Sequence[Pause] = (),
) -> Forecast:
    """What is to be expected from `now` (UTC epoch s), from the whole hours before it; later ones are not looked at.

    Hours that are missing between the first and now had nothing judged. `remaining` is what may still be spent,
    `until` the instant after which exhaustion does not matter, as the end of the period; default: 31 days. Pauses
    concern the hours to come; those of the past are hours in which nothing was judged.
    """
    end = int(now // HOUR)
    judged, spent, first = _dense(hours, end)
    state = _state(judged, spent)
    if state is not ForecastState.FORECAST:
        return Forecast(state)
    ahead = FARTHEST if until is None else max(DAY, min(FARTHEST, int(-(-until // HOUR)) - end))
    places = slots(first, len(judged) + ahead, zone)
    factors = _factors(steps, first, len(places), len(judged))
    today = spent * factors[: len(spent)]
    shape = rhythm(judged, today, places[: len(judged)])[places]
    hindsight = Hindsight(today, shape[: len(judged)])
    coming = shape[len(judged) :] * factors[len(judged) :] * _open(pauses, end, ahead)
    usual = np.cumsum(coming)
    curves = _curves(hindsight, usual)
    low, expected, upper = (float(curve[DAY - 1]) for curve in curves)
    limit = float("inf") if until is None else max(0.0, (until - now) / HOUR)
    return Forecast(
        state,
        Band(low, expected, upper),
        None if remaining is None else _exhaustion(remaining, curves, limit),
        _basis(len(judged), hindsight),
    )


def _dense(hours: Sequence[HourCount], end: int) -> tuple[Floats, Floats, int]:
    """Judged and spent by hour from the first with anything judged to hour `end`, and which the first is."""
    table = np.array(hours, dtype=np.float64).reshape(-1, 3)
    table = table[(table[:, 1] > 0) & (table[:, 0] < end) & (table[:, 0] >= end - MAX_DAYS * DAY)]
    if not len(table):
        return np.zeros(0), np.zeros(0), end
    first = int(table[:, 0].min())
    places = (table[:, 0] - first).astype(np.int64)
    judged, spent = (np.bincount(places, table[:, i], end - first).astype(np.float64) for i in (1, 2))
    return judged, spent, first


def _state(judged: Floats, spent: Floats) -> ForecastState:
    num = judged.sum()
    if not judged[-QUIET_AFTER:].sum():
        return ForecastState.NO_TRAFFIC
    if num < MIN_JUDGED:
        return ForecastState.TOO_FEW
    if spent.sum() == num:
        return ForecastState.ALL_FAILURES
    return ForecastState.FORECAST if len(judged) >= MIN_DAYS * DAY else ForecastState.COLD_START


def _factors(steps: Sequence[Step], first: int, num: int, past: int) -> Floats:
    """What brings each past hour to today's footing, and each future one from it."""
    factors = np.ones(num)
    for step in steps:
        place = int(np.clip(np.ceil(step.at / HOUR) - first, 0, num))
        if place <= past:
            factors[:place] *= step.factor
        else:
            factors[place:] *= step.factor
    return factors


def _open(pauses: Sequence[Pause], end: int, num: int) -> Floats:
    """The part of each coming hour that lies in no pause; where pauses overlap, at least 0."""
    starts = (end + np.arange(num)) * float(HOUR)
    covered = np.zeros(num)
    for pause in pauses:
        covered += np.clip(np.minimum(pause.until_at, starts + HOUR) - np.maximum(pause.from_at, starts), 0.0, HOUR)
    return np.maximum(0.0, 1.0 - covered / HOUR)


def _curves(hindsight: Hindsight, usual: Floats) -> Curves:
    """Low, expected and upper of what will have been spent by the end of each coming hour; none ever falls."""
    ahead = np.arange(1.0, len(usual) + 1)
    mean = hindsight.level(ahead) * usual
    variance, scores = hindsight.spread(ahead)
    low, expected, upper = (np.maximum.accumulate(count_at(each, mean, variance)) for each in scores)
    return low, np.maximum(low, expected), np.maximum(expected, upper)


def _exhaustion(remaining: int, curves: Curves, limit: float) -> Exhaustion:
    """The soonest comes from the upper curve: it may be gone by then."""
    low, expected, upper = (_reaches(curve, remaining, limit) for curve in reversed(curves))
    return Exhaustion(low, expected, upper)


def _reaches(curve: Floats, remaining: int, limit: float) -> float | None:
    """Hours until a curve reaches what remains, between two hours in a straight line."""
    if remaining <= 0:
        return 0.0
    hour = int(np.searchsorted(curve, remaining))
    if hour >= len(curve):
        return None
    before = float(curve[hour - 1]) if hour else 0.0
    found = hour + (remaining - before) / (float(curve[hour]) - before)
    return found if found <= limit else None


def _basis(num_hours: int, hindsight: Hindsight) -> str:
    by = "hour of the week" if num_hours >= WEEKLY_FROM else "hour of the day (too short a history for the week)"
    return f"{num_hours // DAY} days by {by}; {hindsight.words}"

"""What forecasts made in the past would have missed by, on one history: to choose among them, and to be sure of one.

Days are blocks of 24 hours back from now. Before each of them the level is what a habit says: a running mean of
half-life so many days, in which one day may count at most so many times the level before it (an incident), carried on
by the latest trend or not. The habit that would have missed least is taken. Its misses at several horizons are scores
of an over-dispersed count; their quantiles, held towards the normal ones while they are few, are the band.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plimsoll.analytics.overdispersed import score

Floats = npt.NDArray[np.float64]

_WARM: Final = 3
"""Days that a level rests on before it is tried."""
_HORIZONS: Final = (6, 24, 48, 96, 192, 384)
"""Hours ahead at which misses are looked at."""
_MIN_MISSES: Final = 6
_PRIOR: Final = np.array([-1.282, -0.524, 0.0, 0.524, 1.282])
"""Normal scores that stand for as many days while there are few."""
_PRIOR_DAYS: Final = 4.0
_PRIOR_VARIANCE: Final = 0.1
"""Relative variance of a day that is held on to for as many days as above."""
LEVELS: Final = np.array([0.1, 0.5, 0.9])
"""Of low, expected and upper: an 80 % band about the median."""


class _Habit(NamedTuple):
    half_life: float  # days
    cap: float  # of a day's consumption, times the level before
    trend: float  # share of the last week's trend that goes on


_HABITS: Final = tuple(
    _Habit(half_life, cap, trend)
    for half_life in (0.7, 1.5, 3.0, 6.0, 12.0, 30.0)
    for cap in (2.0, 100.0)
    for trend in (0.0, 0.7)
)
_HALF_LIVES: Final = np.array([each.half_life for each in _HABITS])
_KEEP: Final = 0.5 ** (1 / _HALF_LIVES)
_CAPS: Final = np.array([each.cap for each in _HABITS])
_TRENDS: Final = np.array([each.trend for each in _HABITS])
_STEEPEST: Final = 0.15
"""A day, of the level's logarithm."""
_PARAMETERS: Final = 8
"""Seven days of the week and a habit."""


class Hindsight:
    """One history looked back on; `spent` and the relative `shape` of its hours, on today's footing."""

    def __init__(self, spent: Floats, shape: Floats) -> None:
        self._days = len(spent) // 24
        begin = len(spent) - 24 * self._days
        self._spent = np.concatenate(([0.0], np.cumsum(spent[begin:])))
        self._due = np.concatenate(([0.0], np.cumsum(shape[begin:])))
        levels, slopes = self._levels_of_all()
        came, mean = self._tried(levels, slopes, _HALF_LIVES, 24)
        best = int(np.abs(np.log((came + 1) / (mean + 1))).sum(axis=1).argmin())
        self.habit = _HABITS[best]
        self._level, self._slope = levels[best], slopes[best]
        self._misses = self._look_back()

    @property
    def words(self) -> str:
        """Which habit, for people."""
        trend = ", trend carried on" if self.habit.trend else ""
        return f"level of half-life {self.habit.half_life:g} d{trend}"

    def level(self, ahead: Floats) -> Floats:
        """Events an hour of a usual shape, as a mean over the next `ahead` hours."""
        return np.asarray(self._level[-1] * _growth(self._slope[-1], self.habit.half_life, ahead))

    def spread(self, ahead: Floats) -> tuple[Floats, list[Floats]]:
        """Relative variance and the scores of low, expected and upper, for sums over so many hours."""
        known = sorted(self._misses)
        at, grid = np.log(ahead), np.log(known)
        variance = np.interp(at, grid, [self._misses[each][0] for each in known])
        variance = variance * np.maximum(1.0, ahead / known[-1]) ** 0.5  # beyond what was tried, less and less sure
        scores = [np.interp(at, grid, [self._misses[each][1][i] for each in known]) for i in range(3)]
        return variance, scores

    def _levels_of_all(self) -> tuple[Floats, Floats]:
        """By habit: levels and slopes (of their logarithm, a day) before each day and, last, now.

        Half an event is added to what was seen, so that no level is 0.
        """
        spent, due = np.diff(self._spent[::24]), np.diff(self._due[::24])
        levels = np.full((self._days + 1, len(_HABITS)), np.nan)
        top, bottom = np.zeros(len(_HABITS)), 0.0
        for day in range(self._days):
            counted = spent[day]
            if day >= _WARM:
                counted = np.minimum(counted, _CAPS * levels[day] * due[day] + 3)
            top, bottom = _KEEP * top + counted, _KEEP * bottom + due[day]
            levels[day + 1] = (top + 0.5) / bottom
        days = np.arange(self._days + 1)
        before = np.maximum(days - 7, 1)
        slopes = np.log(levels / levels[before]) / np.maximum(days - before, 1)[:, None]
        return levels.T, _TRENDS[:, None] * np.clip(slopes.T, -_STEEPEST, _STEEPEST)

    def _tried(self, levels: Floats, slopes: Floats, half_life: Floats, hours: int) -> tuple[Floats, Floats]:
        """What came within `hours` of each past day's beginning, and the means that were forecast."""
        days = np.arange(_WARM, self._days - (hours - 1) // 24)
        came = self._spent[days * 24 + hours] - self._spent[days * 24]
        due = self._due[days * 24 + hours] - self._due[days * 24]
        mean = levels[..., days] * due * _growth(slopes[..., days], half_life[..., None], np.array(hours))
        return came, np.maximum(mean, 1e-3)

    def _look_back(self) -> dict[int, tuple[float, Floats]]:
        """By horizon: relative variance, and scores of the three levels."""
        found: dict[int, tuple[float, Floats]] = {}
        for hours in _HORIZONS:
            came, mean = self._tried(self._level, self._slope, np.array(self.habit.half_life), hours)
            if len(came) < _MIN_MISSES and hours > 24:
                break
            variance = _variance(came, mean)
            scores = np.concatenate((score(came, mean, variance), _PRIOR))
            found[hours] = variance, np.quantile(scores, LEVELS, method="weibull") * _fitted(self._days)
        return found


def _growth(slope: Floats, half_life: float | Floats, ahead: Floats) -> Floats:
    """What a trend makes of a level until the middle of the hours ahead; it goes on for four days at most."""
    return np.asarray(np.exp(slope * np.minimum(ahead / 48 + half_life, 4)))


def _fitted(days: int) -> float:
    """How much wider misses are than they look, since rhythm and habit were chosen on the same days."""
    return 1 + _PARAMETERS / (2 * days)


def _variance(came: Floats, mean: Floats) -> float:
    """Relative variance beyond chance, from the middle of the misses: the tails are for the scores."""
    if not len(came):
        return _PRIOR_VARIANCE
    roots = np.cbrt((came + 0.5) / mean)
    width = np.median(np.abs(roots - np.median(roots))) / 0.6745
    seen = 9 * width**2 - float(np.mean(1 / np.maximum(mean, 0.1)))
    return float((max(seen, 0.0) * len(came) + _PRIOR_VARIANCE * _PRIOR_DAYS) / (len(came) + _PRIOR_DAYS))

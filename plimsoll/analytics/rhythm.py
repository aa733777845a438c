"""A week's rhythm: how much of a usual hour's consumption falls into each hour of the week.

The shape of traffic is taken from judged events, of which there are many, by hour of the week; that of the bad ratio
from bad events, of which there are few and which come in incidents, by hour of the day and day of the week, each held
back towards flat as far as chance explains it (empirical Bayes).
"""

from datetime import datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WEEK: Final = 168
"""Hours."""
WEEKLY_FROM: Final = 14 * 24
"""Hours of history from which on the days of the week are told apart."""
_TOWARDS_SEPARABLE: Final = 2.0
"""Weeks of evidence that hour of day × day of week is worth against a single hour of the week."""
_LEAST: Final = 1e-3
"""An hour in which nothing ever came may yet bring something."""


def slots(first: int, num: int, zone: str) -> Ints:
    """Hour of the local week, 0 = Monday's first, of `num` hours from hour `first` (UTC epoch s ÷ 3600)."""
    return np.array([_slot(hour, zone) for hour in range(first, first + num)], dtype=np.int64)


@lru_cache(maxsize=65536)
def _slot(hour: int, zone: str) -> int:
    moment = datetime.fromtimestamp(hour * 3600, ZoneInfo(zone))
    return moment.weekday() * 24 + moment.hour


def rhythm(judged: Floats, spent: Floats, places: Ints) -> Floats:
    """Relative consumption of the 168 hours of the week, mean 1, from hourly sums and the slots they fell into."""
    traffic = _traffic(judged, places)
    shape = traffic * _bad_ratio(spent, traffic[places], places)
    return np.asarray(np.maximum(shape, _LEAST) / np.maximum(shape, _LEAST).mean())


def _traffic(judged: Floats, places: Ints) -> Floats:
    by_week = len(judged) >= WEEKLY_FROM
    usual = _around(judged, WEEK if by_week else 24)
    relative = np.divide(judged, usual, out=np.zeros_like(judged), where=usual > 0)
    lived = (usual > 0).astype(np.float64)
    by_hour = _means(relative, lived, places % 24, 24)
    if not by_week:
        return np.tile(by_hour, 7)
    by_day = _means(relative, lived, places // 24, 7)
    separable = np.outer(by_day, by_hour).ravel() / max(by_day.mean(), 1e-12)
    sums = np.bincount(places, relative, WEEK)
    nums = np.bincount(places, lived, WEEK)
    return np.asarray((sums + _TOWARDS_SEPARABLE * separable) / (nums + _TOWARDS_SEPARABLE))


def _bad_ratio(spent: Floats, traffic: Floats, places: Ints) -> Floats:
    """By hour of the week, 1 where it is as everywhere."""
    near, usual = _around(spent, WEEK), _around(traffic, WEEK)
    due = traffic * np.divide(near, usual, out=np.zeros_like(near), where=usual > 0)
    by_hour = _surely_unlike(spent, due, places % 24, 24)
    if len(spent) < WEEKLY_FROM:
        return np.tile(by_hour, 7)
    due = due * by_hour[places % 24]
    days = (np.arange(len(spent)) + places[0] % 24) // 24
    weekday = (days + places[0] // 24) % 7
    begins = np.flatnonzero(np.diff(days, prepend=-1))
    by_day = _surely_unlike(np.add.reduceat(spent, begins), np.add.reduceat(due, begins), weekday[begins], 7)
    return np.asarray(np.outer(by_day, by_hour).ravel())


def _surely_unlike(seen: Floats, due: Floats, keys: Ints, num: int) -> Floats:
    """Seen ÷ due by key, each held towards 1 by as much of its distance as chance would make.

    Chance is what the samples of one key differ by among themselves; what keys differ by beyond it is theirs.
    """
    total = np.bincount(keys, due, num)
    sums = np.bincount(keys, seen, num)
    ratio = np.divide(sums, total, out=np.ones(num), where=total > 0)
    misses = np.bincount(keys, (seen - due * ratio[keys]) ** 2, num)
    samples = np.bincount(keys, minlength=num)
    chance = np.divide(misses * samples, np.maximum(samples - 1, 1) * total**2, out=np.ones(num), where=total > 0)
    beyond = max(0.0, float(np.mean((ratio - 1) ** 2 - chance)))
    return np.asarray(1 + (ratio - 1) * beyond / np.maximum(beyond + chance, 1e-12))


def _means(values: Floats, weights: Floats, keys: Ints, num: int) -> Floats:
    """Means by key; 1 where nothing was seen."""
    sums, nums = np.bincount(keys, values * weights, num), np.bincount(keys, weights, num)
    return np.divide(sums, nums, out=np.ones(num), where=nums > 0)


def _around(values: Floats, width: int) -> Floats:
    """Mean of the `width` hours around each, at the ends of those that are nearest."""
    width = min(width, len(values))
    sums = np.concatenate(([0.0], np.cumsum(values)))
    begin = np.clip(np.arange(len(values)) - width // 2, 0, len(values) - width)
    return np.asarray((sums[begin + width] - sums[begin]) / width)

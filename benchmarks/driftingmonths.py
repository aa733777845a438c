"""Months of hourly error budget, made from counts alone: daily and weekly shape, drift, bursts and incidents.

What a tenant's objective sees is drawn without any request: traffic that follows the clock and wanders, a share of it
bad that wanders too, and incidents in which much more is bad. Each hour's draws come from a stream of its own seed and
purpose (`sim/randomness`), so a month is the same whoever draws it and whatever else was drawn.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from plimsoll.sim.randomness import stream
from plimsoll.slo.budget import HourCount

START: Final = 490_896
"""The first hour, UTC epoch s ÷ 3600: 2026-01-01 00:00, a Thursday."""
Floats = npt.NDArray[np.float64]


class Kind(NamedTuple):
    """What a tenant is like."""

    name: str
    per_hour: float  # requests judged in a middling hour
    bad_ratio: float
    drift: float  # standard deviation of a day's step in log traffic, and half of it in the log bad ratio
    burst: float  # standard deviation of log traffic that lasts some hours
    incidents: float  # begun per day
    incident_factor: float  # on the bad ratio
    likeness: float  # correlation of requests of one hour (beta-binomial)


KINDS: Final = (
    Kind("steady", 2000, 0.005, 0.02, 0.10, 0.02, 10, 0.001),
    Kind("drifting", 800, 0.010, 0.10, 0.15, 0.05, 8, 0.004),
    Kind("bursty", 600, 0.010, 0.05, 0.60, 0.05, 8, 0.010),
    Kind("troubled", 1000, 0.004, 0.04, 0.20, 0.30, 20, 0.004),
    Kind("small", 40, 0.020, 0.06, 0.30, 0.05, 10, 0.010),
    Kind("night batch", 1500, 0.010, 0.08, 0.30, 0.10, 6, 0.006),
)


def drifting_months(seed: int, kind: Kind, days: int) -> list[HourCount]:
    """`days` days of one objective of one tenant."""
    num = days * 24
    traffic = kind.per_hour * _shape(seed, kind, num) * np.exp(_drift(seed, kind, days) + _bursts(seed, kind, num))
    judged = stream(seed, "judged", kind.name).poisson(traffic)
    wander = np.repeat(np.cumsum(stream(seed, "ratio", kind.name).normal(0, kind.drift / 2, days)), 24)
    busy = 1 + 0.5 * (traffic / traffic.mean() - 1).clip(-0.5, 2)
    ratio = (kind.bad_ratio * np.exp(wander) * busy * _incidents(seed, kind, num)).clip(1e-6, 0.9)
    weight = 1 / kind.likeness - 1
    drawn = stream(seed, "hour's ratio", kind.name).beta(ratio * weight, (1 - ratio) * weight)
    spent = stream(seed, "bad", kind.name).binomial(judged, drawn)
    return [HourCount(START + i, int(judged[i]), int(spent[i])) for i in range(num)]


def _shape(seed: int, kind: Kind, num: int) -> Floats:
    """Day and week, with a peak and a quiet weekend of the tenant's own."""
    dice = stream(seed, "shape", kind.name)
    peak, depth, weekend = dice.uniform(9, 18), dice.uniform(0.4, 0.9), dice.uniform(0.2, 1.0)
    if kind.name == "night batch":
        peak, depth, weekend = 3.0, 0.95, 1.0
    hours = np.arange(num)
    daily = 1 + depth * np.cos((hours % 24 - peak) / 24 * 2 * np.pi)
    weekday = (hours // 24 + 3) % 7
    return np.asarray(daily * np.where(weekday >= 5, weekend, 1.0))


def _drift(seed: int, kind: Kind, days: int) -> Floats:
    """Log traffic as it wanders from day to day, straight within each day."""
    steps = np.cumsum(stream(seed, "drift", kind.name).normal(0, kind.drift, days + 1))
    return np.interp(np.arange(days * 24) / 24, np.arange(days + 1), steps)


def _bursts(seed: int, kind: Kind, num: int) -> Floats:
    """Log traffic that forgets itself within some six hours; its mean factor is 1."""
    shocks = stream(seed, "bursts", kind.name).normal(0, kind.burst, num)
    keep = np.exp(-1 / 6)
    values = np.empty(num)
    value = 0.0
    for i in range(num):
        value = keep * value + np.sqrt(1 - keep**2) * shocks[i]
        values[i] = value
    return values - kind.burst**2 / 2


def _incidents(seed: int, kind: Kind, num: int) -> Floats:
    """The factor by which incidents raise the bad ratio, hour by hour: each lasts one to eight hours."""
    dice = stream(seed, "incidents", kind.name)
    factor = np.ones(num)
    for begin in np.flatnonzero(dice.random(num) < kind.incidents / 24):
        length = 1 + int(dice.exponential(2.5))
        size = 1 + (kind.incident_factor - 1) * dice.uniform(0.3, 1.7)
        factor[begin : begin + length] = np.maximum(factor[begin : begin + length], size)
    return factor

"""How much load was safe, by what happened: minutes of a log by load, and where too many requests began to miss.

The share of missed objectives is taken to rise with load: a weighted isotonic fit over minutes, in order of load. The
safe load is where it crosses what the target allows. Its interval comes from leaving out blocks of time one by one
(jackknife), on a log scale. This is what was seen, not an experiment: another mix has another line, and
`plimsoll headroom` simulates one.
"""

from math import exp, log
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.slo.student import student

Floats = NDArray[np.float64]
NUM_BLOCKS: Final = 10
FEWEST: Final = 10
"""Minutes with anything judged, below which nothing is said."""


class SafeLoad(Struct, frozen=True):
    """In the unit of the load. `value` None: not crossed; then it lies above `above` or below `below`, or is unknown.

    `low` and `high` bound the crossing with 95 %; None is no bound on that side.
    """

    num_minutes: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    above: float | None = None  # the heaviest load that was seen, and was safe
    below: float | None = None  # the lightest that was seen, and was not


def safe_load(load: Floats, judged: Floats, bad: Floats, allowed: float) -> SafeLoad:
    """Of minutes in order of time; `allowed` is the share that may be bad, 1 − target."""
    known = (judged > 0) & (load > 0)
    load, judged, bad = load[known], judged[known], bad[known]
    if load.size < FEWEST:
        return SafeLoad(int(load.size))
    found = _crossing(load, judged, bad, allowed)
    if found is None:
        ratio = float(bad.sum() / judged.sum())
        if _fit(load, judged, bad)[1][-1] <= allowed:
            return SafeLoad(int(load.size), above=float(load.max()))
        return SafeLoad(int(load.size), below=float(load.min())) if ratio > allowed else SafeLoad(int(load.size))
    low, high = _interval(load, judged, bad, allowed, found)
    return SafeLoad(int(load.size), found, low, high)


def _fit(load: Floats, judged: Floats, bad: Floats) -> tuple[Floats, Floats]:
    """Loads ascending, and the share of bad ones there: the closest that never falls (pool adjacent violators)."""
    order = np.argsort(load, kind="stable")
    weights: list[float] = []
    sums: list[float] = []
    sizes: list[int] = []
    for num, wrong in zip(judged[order].tolist(), bad[order].tolist(), strict=True):
        weights.append(num)
        sums.append(wrong)
        sizes.append(1)
        while len(sums) > 1 and sums[-2] / weights[-2] >= sums[-1] / weights[-1]:
            weights[-2:] = [weights[-2] + weights[-1]]
            sums[-2:] = [sums[-2] + sums[-1]]
            sizes[-2:] = [sizes[-2] + sizes[-1]]
    return load[order], np.repeat(np.array(sums) / np.array(weights), sizes)


def _crossing(load: Floats, judged: Floats, bad: Floats, allowed: float) -> float | None:
    """The geometric middle of the last load that was fine and the first that was not; None: it does not cross."""
    loads, ratios = _fit(load, judged, bad)
    first = int(np.searchsorted(ratios, allowed, side="right"))
    if first in {0, len(ratios)}:
        return None
    return exp((log(float(loads[first - 1])) + log(float(loads[first]))) / 2)


def _interval(
    load: Floats, judged: Floats, bad: Floats, allowed: float, found: float
) -> tuple[float | None, float | None]:
    block = np.arange(load.size) * NUM_BLOCKS // load.size
    values = []
    for left_out in range(NUM_BLOCKS):
        rest = block != left_out
        value = _crossing(load[rest], judged[rest], bad[rest], allowed)
        if value is None:  # without that stretch of time nothing would have been seen to break
            continue
        values.append(log(value))
    if len(values) < NUM_BLOCKS:
        return (exp(min(values)) if values else None), None
    spread = np.array(values) - np.mean(values)
    error = float(np.sqrt((NUM_BLOCKS - 1) / NUM_BLOCKS * float((spread**2).sum())))
    reach = student(NUM_BLOCKS - 1) * error
    return found * exp(-reach), found * exp(reach)

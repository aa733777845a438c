"""Which time is the incident: from change points where they are certain, else where most of the misses are."""

from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.diagnosis.shift import Change
from plimsoll.diagnosis.visits import Floats

MIN_BAD: Final = 5
"""With fewer missed objectives there is no incident to explain."""
CLOSE: Final = 0.6
"""Share of the window within which a tenant's misses must lie to be one spell."""


def incident(found: tuple[Change, ...]) -> tuple[float | None, float | None]:
    """The neighbouring stretches, each worse than the window as a whole, in which most was missed: their two ends.

    Not the worst stretch alone: that may be four seconds of a minute, with what went before taken for usual.
    """
    worse = [change for change in found if change.worse]
    if not worse:
        return None, None
    stretches = [found[0].before, *[change.after for change in found]]
    usual = sum(each.num_bad for each in stretches) / sum(each.num for each in stretches)
    runs = [list(run) for above, run in groupby(range(len(stretches)), lambda i: stretches[i].ratio > usual) if above]
    begun = [run for run in runs if run[0] > 0]
    if not begun:  # it was worse when the window began: since the change to the worst stretch, then
        begin = max(worse, key=lambda change: change.after.ratio)
        begun = [[found.index(begin) + 1]]
    worst = max(begun, key=lambda run: sum(stretches[i].num_bad for i in run))
    return found[worst[0] - 1].at, found[worst[-1]].at if worst[-1] < len(found) else None


def spell(arrived: Floats, bad: NDArray[np.bool_]) -> tuple[float | None, float | None]:
    """Where most of the misses are close together though no change is certain (queues swing): the two ends of that.

    Only to compare what was sent then with what was sent before; nobody is told that it is worse since.
    """
    if bad.sum() < MIN_BAD:
        return None, None
    begin, end = np.quantile(arrived[bad], (0.05, 0.95)).tolist()
    first, whole = float(arrived[0]), float(arrived[-1] - arrived[0])
    close = end - begin <= CLOSE * whole and begin - first >= (1.0 - CLOSE) / 2 * whole
    return (begin, end) if close else (None, None)

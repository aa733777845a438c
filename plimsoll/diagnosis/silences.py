"""Times in which an engine gave no sign of life, though requests were there: paused, swapped out, waiting for its disk.

Signs of life are first tokens and the ends of whole answers. What the steps with prompts explain (a long prompt lets
nobody else end) is no silence, and whoever decoded throughout without a gap of that length shows that tokens came.
"""

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.curves import Running
from plimsoll.diagnosis.visits import Floats

SHORTEST: Final = 1.5
"""s that a silence lasts at least, steps with prompts taken off."""
GAP_SHARE: Final = 0.5
"""Whoever decodes through a silence has a gap of at least so much of it."""


class Silences(Struct, frozen=True):
    """Those of one replica in order of time; they do not overlap."""

    begin: Floats
    end: Floats

    def within(self, start: Floats, end: Floats) -> Floats:
        """Seconds of silence in each [start, end]."""
        return np.maximum(0.0, self._until(end) - self._until(start))

    def _until(self, when: Floats) -> Floats:
        if not self.begin.size:
            return np.zeros(when.shape)
        lasted = np.concatenate(([0.0], np.cumsum(self.end - self.begin)))
        place = np.searchsorted(self.begin, when, side="right")
        over = np.where(place > 0, np.maximum(0.0, self.end[place - 1] - when), 0.0)
        result: Floats = lasted[place] - over
        return result


class Life(Struct, frozen=True):
    """A replica's requests that got tokens: what silences are found from. `whole`: answered to the end."""

    dispatched: Floats
    first: Floats
    ended: Floats
    gap: Floats  # s, the longest between two of its tokens; NaN: not known
    whole: NDArray[np.bool_]


def silences(life: Life, busy: Running, shortest: float = SHORTEST) -> Silences:
    """`busy` piles up the seconds of steps with prompts at their ends."""
    signs = np.unique(np.concatenate((life.first, life.ended[life.whole])))
    if signs.size == 0:
        return Silences(np.zeros(0), np.zeros(0))
    came, left = np.sort(life.dispatched), np.sort(life.ended)
    since, until = np.concatenate(([came[0]], signs[:-1])), signs
    there = np.searchsorted(came, since, side="right") - np.searchsorted(left, since, side="right")
    following = came[np.minimum(np.searchsorted(came, since, side="right"), came.size - 1)]
    begin = np.where(there > 0, since, np.maximum(since, following))  # nobody there: from the next one on
    silent = until - begin - busy.between(begin, until)
    long = np.flatnonzero(silent >= shortest)
    believed = [place for place in long.tolist() if not _tokens_came(life, float(begin[place]), float(until[place]))]
    return Silences(begin[believed], until[believed])


def _tokens_came(life: Life, begin: float, end: float) -> bool:
    """Whether somebody who decoded all the time had no gap long enough."""
    throughout = (life.first <= begin) & (life.ended >= end) & ~np.isnan(life.gap)
    return bool((life.gap[throughout] < GAP_SHARE * (end - begin)).any())

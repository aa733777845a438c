"""Retry instants that are kept: handed out one behind the other, and what frees up is held for those who come back.

A refused client is told a whole number of seconds (the header has no finer unit) and known again by its request, which
a client repeats as it was: whoever comes at a promised instant or shortly after it with a request like the one that was
refused redeems that promise. Anybody else is a newcomer, and let in only if what is there and what frees up meanwhile
still serve the promises that are due and those to come. A promise that nobody redeems within GRACE is forgotten, so
that clients who do not obey waste little.
"""

from bisect import bisect_left, bisect_right
from math import ceil, sqrt
from typing import Final

GRACE: Final = 0.5  # s after its instant in which a promise is kept
EARLY: Final = 0.005  # s before it: timers of clients and ours do not agree to the millisecond
HORIZON: Final = 60.0  # s: the line ends there, or those who never return would push it out for ever
MOST: Final = 4096  # promises kept in mind
LOOKED_AT: Final = 32  # promises to come that a newcomer is weighed against


class PromisedInstants:
    """What was promised and is neither redeemed nor forgotten, in order."""

    def __init__(self) -> None:
        self.num = 0
        self._instants: list[float] = []  # sorted
        self._whose: list[int] = []  # likeness of the request that each was given for

    def redeems(self, at: float, likeness: int = 0) -> bool:
        """Whether it was promised this: then that promise is kept."""
        self._forget(at)
        for place in range(self.num):
            if self._instants[place] > at + EARLY:
                return False
            if self._whose[place] == likeness:
                del self._instants[place]
                del self._whose[place]
                self.num -= 1
                return True
        return False

    def _give(self, instant: float, likeness: int) -> None:
        if self.num < MOST:
            place = bisect_right(self._instants, instant)
            self._instants.insert(place, instant)
            self._whose.insert(place, likeness)
            self.num += 1

    def _forget(self, at: float) -> None:
        """Drop promises that nobody came for."""
        if self.num and self._instants[0] < at - GRACE:
            gone = bisect_left(self._instants, at - GRACE)
            del self._instants[:gone]
            del self._whose[:gone]
            self.num -= gone


class PromiseLine(PromisedInstants):
    """The promises of one limit. Costs nothing while none is out.

    Where what frees up is certain (a rate), `margin` is 0 and `slack` 1. Where it is chance, a promise lies `margin`
    standard deviations of so many departures later, and the line moves on by `slack` gaps a promise; what it leaves
    is for newcomers.
    """

    def __init__(self, margin: float, slack: float) -> None:
        super().__init__()
        self._slack = slack
        self._margin = margin
        self._last_at = 0.0

    def promise(self, at: float, wait: float, gap: float, likeness: int = 0) -> float:
        """Whole seconds from `at`: after `wait`, a `gap` behind the promise before, and a margin against chance."""
        slot_at = max(at + wait, self._last_at + self._slack * gap)
        if slot_at > at + HORIZON:
            return float(ceil(max(wait, HORIZON)))
        self._last_at = slot_at
        num_gaps = (slot_at - at) / gap if gap > 0.0 else 0.0
        seconds = float(max(1, ceil(slot_at - at + gap * self._margin * sqrt(max(num_gaps, 0.0)))))
        self._give(at + seconds, likeness)
        return seconds

    def allows(self, at: float, available: float, needed: float, gap: float, likeness: int = 0) -> bool:
        """Whether one who comes now may have `needed` of the `available`; as much frees up every `gap` s."""
        if available < needed:
            return False
        if self.num == 0:
            return True
        return self.redeems(at, likeness) or self._still_serves(at, available / needed - 1.0, gap)

    def _still_serves(self, at: float, left: float, gap: float) -> bool:
        """Whether `left` places and what frees up until then serve the promises to come."""
        for position in range(min(self.num, LOOKED_AT)):
            openings = max(0.0, (self._instants[position] - at) / gap) if gap > 0.0 else 0.0
            certain = openings - self._margin * sqrt(openings)
            if left + max(certain, 0.0) < position + 1:
                return False
        return True

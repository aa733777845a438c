"""Retry instants for a number of slots: told so that nine in ten of those who obey find one free.

A slot that is held for somebody stands empty until he returns, so slots do not free up at a steady rate: the next end
lies a whole request behind his return. Here each open request and each promised one counts for itself: it has ended by
an instant with probability 1 − e^(−time ÷ mean), as if nothing were known of how long it has run. The number that
have ended is then normal enough; a promise is the first whole second by which enough have, ONE_SIDED deviations down.
"""

from bisect import bisect_left
from math import exp, sqrt
from typing import Final

from plimsoll.governor.promises import EARLY, HORIZON, PromisedInstants

ONE_SIDED: Final = 1.7  # standard deviations: 95 % of a normal distribution
LOOKED_AT: Final = 16  # promises to come that a newcomer is weighed against
ALL_LOOKED_AT: Final = 64  # promises out above which the line moves on by its last instant and a mean gap


class SlotLine(PromisedInstants):
    """The promises of one limit on open requests. Costs nothing while none is out."""

    def promise(self, at: float, num_open: int, limit: int, mean: float, likeness: int = 0) -> float:
        """Whole seconds from `at`; `mean` is how long requests stay open, in s."""
        if self.num >= ALL_LOOKED_AT:
            seconds = int(max(1.0, self._instants[-1] - at) + 1.5 * mean / max(1, limit)) + 1
        else:
            seconds = self._first_second(at, num_open, limit, mean)
        if seconds > HORIZON:
            return max(HORIZON, float(int(mean) + 1))
        self._give(at + seconds, likeness)
        return float(seconds)

    def allows(self, at: float, num_open: int, limit: int, mean: float, likeness: int = 0) -> bool:
        """Whether one who comes now may have a slot."""
        if self.num == 0:
            return num_open < limit
        if self.redeems(at, likeness):
            return num_open < limit  # if there is none, he is promised another
        if num_open >= limit:
            return False
        for position in range(min(self.num, LOOKED_AT)):
            if not self._is_likely(self._instants[position], at, num_open + 1, limit, mean, position):
                return False
        return True

    def _first_second(self, at: float, num_open: int, limit: int, mean: float) -> int:
        """The least whole number of seconds after which a slot is likely free, behind all who were promised one."""
        low, high = 0, int(HORIZON) + 1  # not likely after low, likely after high (or beyond the horizon)
        while high - low > 1:
            middle = (low + high) // 2
            ahead = bisect_left(self._instants, at + middle + EARLY)
            if ahead == self.num and self._is_likely(at + middle, at, num_open, limit, mean, ahead):
                high = middle
            else:
                low = middle
        return high

    def _is_likely(  # noqa: PLR0917 - what a slot's fate depends on
        self, then: float, at: float, num_open: int, limit: int, mean: float, num_ahead: int
    ) -> bool:
        """Whether a slot is free then, those open now and the first `num_ahead` promised having had theirs."""
        needed = num_open + num_ahead + 1 - limit
        if needed <= 0:
            return True
        if mean <= 0.0:
            return False
        ended = 1.0 - exp(min(0.0, at - then) / mean)  # one that is due already may not have come yet
        expected = num_open * ended
        variance = expected * (1.0 - ended)
        for position in range(num_ahead):
            ended = 1.0 - exp(min(0.0, self._instants[position] - then) / mean)
            expected += ended
            variance += ended * (1.0 - ended)
        return expected - ONE_SIDED * sqrt(variance) >= needed - 0.5

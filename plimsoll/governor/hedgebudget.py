"""What a pool may spend on hedges, and how long a first token usually takes there."""

from heapq import heappush
from typing import Final

from plimsoll.governor.estimates import Histogram
from plimsoll.governor.request import Request
from plimsoll.governor.timers import Timers
from plimsoll.policy.policy import Hedging

AT_LEAST: Final = 100  # first tokens seen before anything is called unusually long
WINDOW: Final = 1000
SAVED: Final = 4.0  # largest charges that may be saved up: what was not needed yesterday is no reason to burst today


class HedgeBudget:
    """Credit in tokens of service: a part of all that is dispatched, spent by what is asked twice."""

    def __init__(self, rules: Hedging, *, predicts: bool) -> None:
        """`predicts`: routing predicts first tokens, so late is what is late for its prediction."""
        self.rules = rules
        self.predicts = predicts
        self.num = 0
        self.num_won = 0
        self.credit = 0.0
        self._part = float(rules.budget)
        self._at_least = rules.at_least
        self._largest = 0.0
        self._seen = Histogram(AT_LEAST, WINDOW)  # s, or actual ÷ predicted where routing predicts
        self._usual = self._seen.follow(rules.beyond.numerator, rules.beyond.denominator)

    def earned(self, charge: float) -> None:
        """So much service was dispatched."""
        self._largest = max(self._largest, charge)
        self.credit = min(self.credit + self._part * charge, SAVED * self._largest)

    def first_token(self, predicted: float, actual: float) -> None:
        """A first token came `actual` s after its dispatch; `predicted` 0.0: not predicted."""
        if not self.predicts:
            self._seen.add(actual)
        elif predicted > 0.0:
            self._seen.add(actual / predicted)

    def patience(self, predicted: float) -> float | None:
        """Seconds after dispatch beyond which a first token is unusually late; None: too few seen to say."""
        usual = self._usual.upper()
        if usual is None or (self.predicts and predicted <= 0.0):
            return None
        return max(self._at_least, usual * predicted if self.predicts else usual)


def watch(hedges: HedgeBudget, timers: Timers, request: Request, at: float) -> None:
    """A request has just been dispatched: when its first token should have come, and what it earns for hedges."""
    hedges.earned(request.charged)
    if not request.streaming:
        return
    patience = hedges.patience(request.late_ttft or request.predicted_ttft)
    if patience is not None:
        heappush(timers.looks, (at + patience, request.sequence, request.attempts, request))

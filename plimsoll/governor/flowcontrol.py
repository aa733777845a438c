"""How fast a tenant may spend tokens: its rate follows how it is served, between a floor and burst headroom.

While its requests are slow or fail or its budget is spent, its rate shrinks by a fifth at a time; while they are quick
it grows by a twentieth; in between it returns to what the policy says (additive increase, multiplicative decrease:
https://doi.org/10.1016/0169-7552(89)90019-6). What a request takes is estimated on arrival and settled at its end
(`limits`), so only the refill changes here.
"""

from typing import Final

from plimsoll.policy.policy import Adapt

EVERY: Final = 5.0  # s between two changes …
AT_LEAST: Final = 10  # … and requests that ended in between
TOO_MANY_ERRORS: Final = 0.05
SLOW: Final = 0.8  # of the threshold, in the mean: the next step would break it
QUICK: Final = 0.5
SHRINK: Final = 0.8
GROW: Final = 0.05


class FlowControl:
    """`factor` is what the policy's rate is multiplied by."""

    def __init__(self, rules: Adapt, at: float) -> None:
        self.floor = float(rules.floor)
        self.burst = float(rules.burst)
        self.factor = 1.0
        self.spent = False  # its error budget is: nothing beyond what the policy says, and down with it
        self._since_at = at
        self._num = 0
        self._num_errors = 0
        self._num_timed = 0
        self._sum_ratios = 0.0  # TTFT ÷ threshold

    def ended(self, at: float, ttft_ratio: float, *, error: bool) -> bool:
        """A request ended, with its TTFT ÷ threshold (0.0: not known); whether the factor has changed."""
        self._num += 1
        self._num_errors += error
        if ttft_ratio > 0.0:
            self._num_timed += 1
            self._sum_ratios += ttft_ratio
        if at - self._since_at < EVERY or self._num < AT_LEAST:
            return False
        before = self.factor
        self.factor = self._next()
        self._since_at = at
        self._num = self._num_errors = self._num_timed = 0
        self._sum_ratios = 0.0
        return self.factor != before

    def _next(self) -> float:
        mean = self._sum_ratios / self._num_timed if self._num_timed else SLOW  # not known: neither quick nor slow
        if self.spent or mean > SLOW or self._num_errors > TOO_MANY_ERRORS * self._num:
            return max(self.floor, self.factor * SHRINK)
        if mean < QUICK:
            return min(self.burst, self.factor + GROW)
        if self.factor < 1.0:
            return min(1.0, self.factor + GROW)
        return max(1.0, self.factor - GROW)

"""The ladder: what is taken from requests while a pool is slow or a tenant's budget is spent.

A pool climbs one level when its P99 or its saturation has been above the limit for the policy's time, and comes down
one when both have been below four fifths of the limit for as long; each
step starts the time anew. Between the two nothing changes. A tenant climbs and comes down one level a report of
budgets, and only what is not critical of it is degraded.
"""

from typing import Final

from plimsoll.governor.estimates import Histogram
from plimsoll.policy.policy import Degradation
from plimsoll.slo.measured import ItlSketch

DROP_PLUGINS: Final = "drop_plugins"
BATCH_OF_ONE: Final = "batch_of_one"
SMALL_MODEL: Final = "small_model"

RELEASE: Final = 0.8  # of the limit: below it a level is left again
AT_LEAST: Final = 20  # requests (tokens for itl) for a P99 to act by; bounded by what comes in a window
EVERY: Final = 1.0  # s between two looks
SHORTEST: Final = 1.0  # s of the window over which P99 is taken (it looks at this one and the one before) …
LONGEST: Final = 30.0


class Ladder:
    """The level of one pool: the first `level` entries of the policy's `levels` hold."""

    def __init__(self, policy: Degradation) -> None:
        self.policy = policy
        self.level = 0
        self._levels = policy.levels
        self._sli = policy.when.p99_of
        self._above = policy.when.above
        self._full = 0.0 if policy.when.saturation is None else float(policy.when.saturation)
        self._for = policy.when.for_
        self._window = min(max(self._for / 3.0, SHORTEST), LONGEST)
        self._seen = Histogram(AT_LEAST, num_windows=2)
        self._p99 = self._seen.follow(99, 100)
        self._window_from = 0.0
        self._looked_at = 0.0
        self._high_since = -1.0  # -1: it is not
        self._low_since = -1.0

    def holds(self, what: str, level: int = -1) -> bool:
        """Whether that is taken now, at the pool's level or another one."""
        return what in self._levels[: self.level if level < 0 else level]

    def ended(
        self, at: float, ttft: float, tpot: float, e2e: float, sketches: tuple[ItlSketch, ItlSketch, ItlSketch] | None
    ) -> None:
        """A request of the pool ended, with its times in s; 0.0 and None: not known."""
        self._roll(at)
        if self._sli == "itl":
            for sketch in sketches or ():
                if sketch.num_zero:
                    self._seen.add_many(0.0, sketch.num_zero)
                for bucket, num in sketch.buckets.items():
                    self._seen.add_many(2.0 ** ((bucket - 0.5) / 32.0), num)
            return
        value = ttft if self._sli == "ttft" else tpot if self._sli == "tpot" else e2e
        if value > 0.0:
            self._seen.add(value)

    def due(self, at: float) -> bool:
        """Whether it is time to look again."""
        return at - self._looked_at >= EVERY

    @property
    def watches_saturation(self) -> bool:
        """Whether how full the pool is may take it a level up."""
        return self._full > 0.0

    def look(self, at: float, saturation: float | None = None) -> bool:
        """Whether the level has changed; P99 of nothing, where nobody is served, counts as low.

        `saturation` of the pool; None: not watched, or not known, which keeps a level as it is.
        """
        if not self.due(at):
            return False
        self._looked_at = at
        self._roll(at)
        p99 = self._p99.upper()
        is_high = p99 is not None and p99 > self._above
        is_low = p99 < RELEASE * self._above if p99 is not None else self._seen.num == 0
        if self._full > 0.0:
            is_high = is_high or (saturation is not None and saturation >= self._full)
            is_low = is_low and saturation is not None and saturation < RELEASE * self._full
        self._high_since = _since(self._high_since, at, holds=is_high)
        self._low_since = _since(self._low_since, at, holds=is_low)
        if is_high and self.level < len(self._levels) and at - self._high_since >= self._for:
            self.level += 1
            self._high_since = at
            return True
        if is_low and self.level > 0 and at - self._low_since >= self._for:
            self.level -= 1
            self._low_since = at
            return True
        return False

    def _roll(self, at: float) -> None:
        while at - self._window_from >= self._window:
            self._seen.roll()
            self._window_from = at if at - self._window_from > 4 * self._window else self._window_from + self._window


def ladder_by(rules: Degradation, before: Ladder | None) -> Ladder | None:
    """The ladder of a (new) policy; at its level where the rules are the same, since no reload ends an overload."""
    if before is not None and before.policy == rules:
        return before
    return Ladder(rules) if rules.levels else None


def _since(before: float, at: float, *, holds: bool) -> float:
    if not holds:
        return -1.0
    return at if before < 0.0 else before

"""A tier at work: all that waits in it, over all pools, and how fast that drains."""

from plimsoll.governor.estimates import DrainRate, PromiseLine
from plimsoll.policy.policy import Tier


class TierQueue:
    """The bound of a tier's queue and its predictions. Lives as long as anybody who was promised that tier."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.num_waiting = 0
        self.departures = DrainRate()
        self.promises = PromiseLine()

    def retry_after(self, at: float) -> float:
        """Seconds until there is a place; 0.0: nothing left it yet, so nobody knows."""
        gap = self.departures.gap(at)
        if gap is None:
            return 0.0
        beyond = max(0, self.num_waiting - self.tier.queue_limit)
        return self.promises.promise(at, gap * (beyond + 1), gap)

    def retry_after_waiting(self, at: float) -> float:
        """Seconds until those who wait now have shrunk to what drains within the tier's patience; 0.0: not known."""
        gap = self.departures.gap(at)
        if gap is None:
            return 0.0
        return self.promises.promise(at, max(gap, self.num_waiting * gap - self.tier.queue_timeout), gap)

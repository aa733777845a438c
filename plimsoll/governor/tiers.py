"""A tier at work: all that waits in it, over all pools, and how fast that drains."""

from plimsoll.governor.estimates import DrainRate
from plimsoll.governor.promises import PromiseLine
from plimsoll.policy.objective import Objective
from plimsoll.policy.policy import Tier


class TierQueue:
    """The bound of a tier's queue and its predictions. Lives as long as anybody who was promised that tier."""

    def __init__(self, tier: Tier) -> None:
        self.apply(tier)
        self.num_waiting = 0
        self.departures = DrainRate()
        self.promises = PromiseLine(1.3, 1.3)

    def apply(self, tier: Tier) -> None:
        """Take over a (new) policy."""
        self.tier = tier
        self.name: str = tier.name
        self.objectives: tuple[Objective, ...] = tier.objectives
        self.queue_limit: int = tier.queue_limit
        self.queue_timeout: float = tier.queue_timeout

    def has_place(self, at: float, likeness: int = 0) -> bool:
        """Whether one more may wait who comes now."""
        free = self.queue_limit - self.num_waiting
        gap = 0.0 if self.promises.num == 0 else self.departures.gap(at) or 0.0
        return self.promises.allows(at, free, 1.0, gap, likeness)

    def retry_after(self, at: float, likeness: int = 0) -> float:
        """Seconds until there is a place; 0.0: nothing left it yet, so nobody knows."""
        gap = self.departures.gap(at)
        return 0.0 if gap is None else self.promises.promise(at, gap, gap, likeness)

    def retry_after_waiting(self, at: float, likeness: int = 0) -> float:
        """Seconds until those who wait now have shrunk to what drains within the tier's patience; 0.0: not known."""
        gap = self.departures.gap(at)
        if gap is None:
            return 0.0
        wait = max(gap, self.num_waiting * gap - self.queue_timeout)
        return self.promises.promise(at, wait, gap, likeness)

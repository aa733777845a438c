"""A share is a floor of service, too: computing runs out where KV and slots do not, and floors of those would be idle.

While somebody waits, each lane (tier queue) earns its share of what the pool is charged, in tokens of service, and pays
for what it gets. A lane with something left is *behind*: its turn comes before rank. One without anything left that
has the replicas compute more than its share, too, *gives way* while another one that waits is behind: it sends prompts
only as a lower tier does (`admission`), the highest tier, too. What it piled up inside the engines the others would
stand behind.
"""

from math import exp
from typing import Final

from plimsoll.governor.queueing import Lane
from plimsoll.governor.replicas import DEFAULT_STEP

SAVED: Final = 16.0  # steps of all engines whose tokens a lane may save up: bursts come by chance
AHEAD: Final = 2.0  # … and which it may be ahead by
LATELY: Final = 60.0  # s over which computing time is averaged
PART: Final = 0.85  # of an engine's time is what its requests sum to when it is never idle: steps cost something, too


class ServiceFloors:
    """One a pool, with its lanes in order of rank. Without an engine profile nobody gives way: time is not known."""

    def __init__(self, lanes: list[Lane], shares: list[float]) -> None:
        self._lanes = lanes
        self._shares = shares
        self._saved = [0.0] * len(shares)  # tokens of service
        self._computed = [0.0] * len(shares)  # s of computation lately
        self._computed_at = [0.0] * len(shares)
        self.num_replicas = 1
        self.step_tokens = DEFAULT_STEP  # that a replica computes at once

    def is_behind(self, lane: int) -> bool:
        """Whether it had less than its share of what was charged."""
        return self._saved[lane] > 0.0

    def gives_way(self, lane: int) -> bool:
        """Whether it had its share, and another one that waits has not."""
        if self._saved[lane] > 0.0:
            return False
        if self._computed[lane] <= PART * self._shares[lane] * LATELY * self.num_replicas:
            return False
        for index, other in enumerate(self._lanes):
            if self._saved[index] > 0.0 and other.num > 0 and index != lane:
                return True
        return False

    def charged(self, lane: int, tokens: float) -> None:
        """So much service went to a lane while somebody waited; negative: what it was charged turned out to be less."""
        step = float(self.step_tokens * self.num_replicas)
        for index, share in enumerate(self._shares):
            saved = self._saved[index] + share * tokens
            if index == lane:
                saved -= tokens
            self._saved[index] = min(max(saved, -AHEAD * step), SAVED * step)

    def computes(self, lane: int, seconds: float, at: float) -> None:
        """A request of that lane, which takes so long, was sent to a replica."""
        since = at - self._computed_at[lane]
        self._computed[lane] = seconds + self._computed[lane] * exp(-since / LATELY)
        self._computed_at[lane] = at

"""How many requests are where, by tenant and tier: the numbers of the conservation law."""

from plimsoll.governor.lifecycle import RECEIVED, STATES


class Counts:
    """One tenant's requests in one tier. At every instant `received` equals the sum of all states."""

    def __init__(self, tenant: str, tier: str) -> None:
        self.tenant = tenant
        self.tier = tier
        self.received = 0
        self.by_state: list[int] = [0] * len(STATES)

    def arrived(self) -> None:
        """A request came; its state is `received` until it is decided upon."""
        self.received += 1
        self.by_state[RECEIVED] += 1

    def moved(self, before: int, after: int) -> None:
        """A request changed its state."""
        self.by_state[before] -= 1
        self.by_state[after] += 1

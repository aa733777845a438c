"""How many requests are where, by tenant and tier: the numbers of the conservation law."""

from plimsoll.governor.lifecycle import State


class Counts:
    """One tenant's requests in one tier. At every instant `received` equals the sum of all states."""

    def __init__(self, tenant: str, tier: str) -> None:
        self.tenant = tenant
        self.tier = tier
        self.received = 0
        self.by_state: dict[State, int] = dict.fromkeys(State, 0)

    def arrived(self) -> None:
        """A request came; its state is `received` until it is decided upon."""
        self.received += 1
        self.by_state[State.RECEIVED] += 1

    def moved(self, before: State, after: State) -> None:
        """A request changed its state."""
        by_state = self.by_state
        by_state[before] -= 1
        by_state[after] += 1

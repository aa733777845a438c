"""How many of a draft's tokens are accepted, by tenant and cause, and whose requests are better not drafted.

Learnt from what answers tell of themselves, or, from engines whose answers tell nothing, from how the counters of their
replicas grew between two reports: the growth is explained by the kinds of requests that ran there, and what is left
unexplained corrects each by its part (normalised least mean squares). A kind that is not known yet goes by its tenant,
an unknown tenant's requests are drafted. One in so many of those that are kept from drafts is drafted all the same.
"""

from typing import Final

from plimsoll.governor.replicas import Replica
from plimsoll.policy.schedulingrules import SpeculationRules

ENOUGH: Final = 256.0  # draft tokens seen before a ratio counts
WINDOW: Final = 4096.0  # of these, by which a ratio is a running mean
Kind = tuple[int, str]
"""Index of a tenant's account, and a cause; "": all of the tenant."""


class Seen:
    """What is known of one kind of requests."""

    def __init__(self) -> None:
        self.ratio = 0.5  # of draft tokens accepted
        self.num = 0.0  # draft tokens that it rests on
        self.num_kept = 0  # requests kept from drafts

    def move(self, num: float, error: float) -> None:
        """So many draft tokens were off by that much on average."""
        self.num = min(self.num + num, WINDOW)
        self.ratio = min(1.0, max(0.0, self.ratio + error * num / self.num)) if self.num > 0.0 else self.ratio


class Acceptance:
    """Of all tenants; survives policy changes."""

    def __init__(self) -> None:
        self.rules: SpeculationRules | None = None
        self._kinds: dict[Kind, Seen] = {}
        self._counters: dict[str, tuple[int, int]] = {}  # by replica, when it last reported
        self._tell: set[str] = set()  # replicas whose answers tell it themselves

    def learn(self, tenant: int, cause: str, replica: str, drafted: int, accepted: int) -> None:
        """An answer said how many tokens were drafted for it, and accepted."""
        self._tell.add(replica)
        if drafted <= 0:
            return
        ratio = min(1.0, accepted / drafted)
        for kind in _kinds(tenant, cause):
            seen = self._seen(kind)
            seen.move(float(drafted), ratio - seen.ratio)

    def reported(self, replica: Replica, drafted: int | None, accepted: int | None) -> None:
        """A replica's counters of tokens drafted and accepted, since its start."""
        if self.rules is None or drafted is None or accepted is None or replica.name in self._tell:
            return
        before = self._counters.get(replica.name)
        self._counters[replica.name] = (drafted, accepted)
        if before is None or drafted <= before[0] or accepted < before[1]:
            return  # the first report, nothing drafted, or a new process
        num, ratio = float(drafted - before[0]), min(1.0, (accepted - before[1]) / (drafted - before[0]))
        parts: dict[Kind, float] = {}
        for request in replica.in_flight.values():
            if request.first_token_at > 0.0 or not request.streaming:
                kind = (request.account.index, request.cause)
                parts[kind] = parts.get(kind, 0.0) + 1.0
        total = sum(parts.values())
        if total <= 0.0:
            return
        shares = {kind: part / total for kind, part in parts.items()}
        self._explain(shares, num, ratio)
        tenants: dict[Kind, float] = {}
        for (tenant, cause), share in shares.items():
            if cause:
                tenants[tenant, ""] = tenants.get((tenant, ""), 0.0) + share
        if tenants:
            self._explain(tenants, num, ratio)

    def ratio(self, tenant: int, cause: str) -> float | None:
        """Of draft tokens for such a request, the part that should be accepted; None: not known."""
        for kind in _kinds(tenant, cause):
            seen = self._kinds.get(kind)
            if seen is not None and seen.num >= ENOUGH:
                return seen.ratio
        return None

    def keeps_from(self, tenant: int, cause: str) -> bool:
        """Whether this request is better not drafted; asked once a request, since one in so many is drafted anyway."""
        rules = self.rules
        ratio = None if rules is None else self.ratio(tenant, cause)
        if rules is None or ratio is None or ratio >= float(rules.below):
            return False
        seen = self._seen((tenant, cause))
        seen.num_kept += 1
        return seen.num_kept % rules.explore != 0

    def _explain(self, shares: dict[Kind, float], num: float, ratio: float) -> None:
        """Let kinds that ran together account for what was accepted together."""
        expected = sum([share * self._seen(kind).ratio for kind, share in shares.items()])
        norm = sum([share * share for share in shares.values()])
        for kind, share in shares.items():
            self._seen(kind).move(num * share, (ratio - expected) * share / norm)

    def _seen(self, kind: Kind) -> Seen:
        seen = self._kinds.get(kind)
        if seen is None:
            seen = self._kinds[kind] = Seen()
        return seen


def _kinds(tenant: int, cause: str) -> tuple[Kind, ...]:
    return ((tenant, cause), (tenant, "")) if cause else ((tenant, ""),)

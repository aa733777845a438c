"""A tenant at work: its limits' state, what it has open, and how long its outputs usually are."""

from math import inf
from typing import Final

from plimsoll.governor.counts import Counts
from plimsoll.governor.estimates import DrainRate, Histogram
from plimsoll.governor.events import BudgetState, Standing
from plimsoll.governor.flowcontrol import FlowControl
from plimsoll.governor.months import Month
from plimsoll.governor.promises import PromiseLine
from plimsoll.governor.slotline import SlotLine
from plimsoll.governor.tiers import TierQueue
from plimsoll.policy.policy import Tenant, Tier
from plimsoll.slo.budget import BudgetHealth

_HEALTHY: Final = BudgetHealth.HEALTHY
_LESS: Final = frozenset({BudgetHealth.WARN, BudgetHealth.DEGRADED, BudgetHealth.EXHAUSTED})
ENOUGH: Final = 20  # outputs seen before their quantiles count
WINDOW: Final = 500  # outputs; the last two to three windows count


class Bucket:
    """A token bucket refilled at `per_minute`, holding at most a minute's worth; it may be overdrawn by settling."""

    def __init__(self, per_minute: int, at: float) -> None:
        self.per_minute = per_minute
        self.rate = per_minute / 60.0
        self.capacity = float(per_minute)
        self.level = float(per_minute)
        self.refilled_at = at
        self.promises = PromiseLine(0.0, 1.0)

    def has(self, amount: float, at: float, likeness: int = 0) -> bool:
        """Whether `amount` may be taken now. More than a whole minute's worth may go when the bucket is full."""
        self._refill(at)
        needed = min(amount, self.capacity)
        if self.promises.num and self.promises.redeems(at, likeness):
            return True  # also where others were settled above their estimate since: later ones wait for that
        return self.promises.allows(at, self.level, needed, needed / self.rate, likeness)

    def take(self, amount: float) -> None:
        """Take it; a negative amount gives back."""
        self.level = min(self.level - amount, self.capacity)

    def retry_after(self, amount: float, at: float, likeness: int = 0) -> float:
        """Seconds until `amount` will be there for one who was refused now, behind those refused before."""
        needed = min(amount, self.capacity)
        return self.promises.promise(at, (needed - self.level) / self.rate, needed / self.rate, likeness)

    def left(self, at: float) -> float:
        """What it holds at that instant; below 0 where it is overdrawn."""
        return min(self.capacity, self.level + max(0.0, at - self.refilled_at) * self.rate)

    def resize(self, per_minute: int, at: float) -> None:
        """A new policy: the share that was left stays."""
        self._refill(at)
        left = self.level / self.capacity
        self.per_minute = per_minute
        self.rate = per_minute / 60.0
        self.capacity = float(per_minute)
        self.level = left * self.capacity

    def retune(self, factor: float, at: float) -> None:
        """Refill that much faster or slower than the policy says, from now on."""
        self._refill(at)
        self.rate = self.per_minute / 60.0 * factor

    def _refill(self, at: float) -> None:
        if at > self.refilled_at:
            self.level = min(self.capacity, self.level + (at - self.refilled_at) * self.rate)
            self.refilled_at = at


class Outputs:
    """How long a tenant's outputs are, in tokens a choice: what is reserved follows a high quantile, what is expected
    the median."""

    def __init__(self, numerator: int, denominator: int) -> None:
        self.quantile = (numerator, denominator)
        self.lengths = Histogram(ENOUGH, WINDOW)
        self.high = self.lengths.follow(numerator, denominator)
        self.median = self.lengths.follow(1, 2)


class Account:
    """The running state of one tenant."""

    def __init__(self, tenant: Tenant, index: int) -> None:
        self.tenant = tenant
        self.name: str = tenant.name
        self.index = index  # its line in every queue; never reused
        self.weight = float(tenant.weight)
        self.counts: dict[str, Counts] = {}  # by tier
        self.num_open = 0
        self.num_waiting = 0
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        self.open_time = 0.0  # s that a request of its stays open, smoothed; 0: none has ended
        self.departures = DrainRate()  # from its waiting requests
        self.slots = SlotLine()
        self.queue_promises = PromiseLine(1.3, 1.3)
        self.outputs = Outputs(9, 10)
        self.budgets: dict[str, BudgetState] = {}  # by objective, the last ones reported
        self.flow: FlowControl | None = None  # None: its token rate stands
        self.standings: list[Standing] = []  # what past months give or take, by time
        self.stands_until = 0.0  # from then on another one may hold
        self.headroom = 0  # requests beyond its concurrency limit
        self.demoted = False  # waits one rank lower
        self.level = 0  # of the ladder, for what is not critical of it
        self.spent = False  # an error budget of its calls for action
        self.healthy = False  # one of them is known to be healthy, and none to be less
        self.may_hedge = True  # as far as its budget goes
        self.known = False  # the policy names it
        self.max_open = -1  # its limits at hand; -1: none
        self.max_waiting = -1
        self.requires_cause = False
        self.default_cause = ""
        self.own_tier = TierQueue(Tier("", 0))  # what it is served in, if it asks for no other
        self.own_lane = 0
        self.month: Month | None = None  # names months in its zone; None: not asked for since the policy came
        self.own_counts = Counts(tenant.name, "")  # those in its own tier

    def follow(self, numerator: int, denominator: int) -> None:
        """Reserve by that quantile of its outputs; another one than before starts to learn anew."""
        if self.outputs.quantile != (numerator, denominator):
            self.outputs = Outputs(numerator, denominator)

    def counts_in(self, tier: str) -> Counts:
        """Its counts in a tier."""
        counts = self.counts.get(tier)
        if counts is None:
            counts = self.counts[tier] = Counts(self.name, tier)
        return counts

    def apply(self, tenant: Tenant, own_tier: TierQueue, own_lane: int, at: float) -> None:
        """Take over a tenant's (new) policy; what it used of its limits stays used."""
        self.tenant = tenant
        self.own_tier, self.own_lane = own_tier, own_lane
        self.own_counts = self.counts_in(own_tier.name)
        self.known = True
        limits = tenant.limits
        self.max_open = -1 if limits.concurrency is None else limits.concurrency
        self.max_waiting = -1 if limits.queue is None else limits.queue
        self.requires_cause = tenant.require_cause
        self.default_cause = tenant.default_cause
        self.weight = float(tenant.weight)
        self.requests = _bucket(self.requests, tenant.limits.requests_per_minute, at)
        self.tokens = _bucket(self.tokens, tenant.limits.tokens_per_minute, at)
        before = self.flow
        self.flow = None if limits.adapt is None or self.tokens is None else FlowControl(limits.adapt, at)
        if self.flow is not None and self.tokens is not None:
            self.flow.spent = self.spent
            self.flow.factor = min(max(1.0 if before is None else before.factor, self.flow.floor), self.flow.burst)
            self.tokens.retune(self.flow.factor, at)
        elif self.tokens is not None:
            self.tokens.retune(1.0, at)

    def take_budgets(self, budgets: list[BudgetState], standings: list[Standing], most_levels: int) -> None:
        """What the last report says of it; what it does not say does not hold."""
        self.budgets = {budget.objective: budget for budget in budgets}
        self.spent = any(budget.degrade or budget.exhausted for budget in budgets)
        health = {budget.health for budget in budgets}
        self.healthy = not self.spent and _HEALTHY in health and not health & _LESS
        self.level = min(self.level + 1, most_levels) if self.spent else max(0, self.level - 1)
        if self.flow is not None:
            self.flow.spent = self.spent
        self.standings = standings
        self.headroom, self.demoted, self.stands_until = 0, False, 0.0

    def stand(self, at: float) -> None:
        """Let the standing of that instant hold, until the next one may."""
        self.headroom, self.demoted, self.stands_until = 0, False, inf
        for standing in self.standings:
            if standing.from_at <= at < standing.until_at:
                self.headroom, self.demoted = standing.headroom, standing.demoted
                self.stands_until = min(self.stands_until, standing.until_at)
            elif standing.from_at > at:
                self.stands_until = min(self.stands_until, standing.from_at)

    def held_against(self) -> int:
        """Requests that it may have open: its limit and what past months give; -1: no limit."""
        return self.max_open if self.max_open < 0 else self.max_open + self.headroom


def _bucket(before: Bucket | None, per_minute: int | None, at: float) -> Bucket | None:
    if per_minute is None:
        return None
    if before is None:
        return Bucket(per_minute, at)
    if before.capacity != per_minute:
        before.resize(per_minute, at)
    return before

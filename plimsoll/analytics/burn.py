"""How fast each budget burns now, by the windows derived for its objective, and which alerts that is worth."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Protocol

from msgspec import Struct

from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.figures import History
from plimsoll.policy.objective import RUN, Objective
from plimsoll.policy.policy import Policy
from plimsoll.slo.burnrate import DAY, PERIOD, BurnRule, BurnState, burn_rate, burn_rules, judge
from plimsoll.slo.recent import Counts, Recent

PAGE_SHARE: Final = Fraction(5, 100)
"""Rules that fire after at most this share of the budget page; slower ones open a ticket."""


class Burning(Struct, frozen=True):
    """One rule of one objective of one tenant, now. A rate of 1 spends the budget exactly by the period's end."""

    factor: float  # above which it fires
    long: float  # s
    short: float  # s
    severity: str  # page or ticket
    state: BurnState
    long_rate: float | None  # None: nothing was judged
    short_rate: float | None


class Windows(Protocol):
    """Whoever knows what was judged lately."""

    def window(self, at: float, seconds: float, /) -> Counts:
        """What ended in the last so many seconds before `at`."""


class _Booked:
    """Runs of agents, each of which is one event, from the books: no row of the log has them."""

    def __init__(self, history: History) -> None:
        self._history = history

    def window(self, at: float, seconds: float, /) -> Counts:
        num, bad = self._history.window(at, int(seconds))
        return Counts(bad, num, bad, num, bad, bad, num)


def burning_runs(
    policy: Policy, histories: Mapping[Owner, History], at: float
) -> dict[tuple[str, str], tuple[Burning, ...]]:
    """The same of runs, of the tenants that are promised anything of them."""
    found: dict[tuple[str, str], tuple[Burning, ...]] = {}
    for tenant in policy.tenants:
        run = policy.tier(tenant.tier).run
        if run is not None:
            booked = _Booked(histories.get(Owner(tenant.name, RUN), History()))
            found[tenant.name, RUN] = burning(run.objective, booked, at, period(policy))
    return found


def burning(objective: Objective, recent: Windows, at: float, period: int = PERIOD) -> tuple[Burning, ...]:
    """By rule, fastest first, from what ended before `at` (UTC epoch s)."""
    return tuple(
        [
            _judged(objective, rule, recent.window(at, float(rule.long)), recent.window(at, float(rule.short)))
            for rule in burn_rules(objective.target, period)
        ]
    )


def longest_window(policy: Policy) -> float:
    """Seconds of history that the policy's objectives need."""
    rules = [
        rule for tier in policy.tiers for each in tier.objectives for rule in burn_rules(each.target, period(policy))
    ]
    return float(max((rule.long for rule in rules), default=Fraction(DAY)))


def period(policy: Policy) -> int:
    """Seconds over which burn is reckoned: the rolling period, or 30 days for calendar months."""
    return PERIOD if policy.service.period == "month" else int(policy.service.period.removesuffix("d")) * DAY


def severity_of(rule: BurnRule) -> str:
    """page or ticket."""
    return "page" if rule.share <= PAGE_SHARE else "ticket"


def _judged(objective: Objective, rule: BurnRule, long: Counts, short: Counts) -> Burning:
    return Burning(
        factor=float(rule.factor),
        long=float(rule.long),
        short=float(rule.short),
        severity=severity_of(rule),
        state=judge(rule, objective.target, long, short),
        long_rate=burn_rate(long.num_bad, long.num_judged, objective.target),
        short_rate=burn_rate(short.num_bad, short.num_judged, objective.target),
    )


class Recents:
    """What was judged lately, of all objectives of all tenants: fed with every settlement, asked once a minute."""

    def __init__(self, keep: float) -> None:
        """`keep` in s: `longest_window` of the policy."""
        self._keep = keep
        self._recent: dict[tuple[str, str, str], Recent] = {}

    def add(self, tenant: str, tier: str, objective: str, at: float, counts: Counts) -> None:
        """What ended at `at` (UTC epoch s): one request (`NOTHING.with_request`) or many."""
        key = (tenant, tier, objective)
        recent = self._recent.get(key)
        if recent is None:
            recent = self._recent[key] = Recent(self._keep)
        recent.add(at, counts)

    def burning(self, policy: Policy, at: float) -> dict[tuple[str, str], tuple[Burning, ...]]:
        """By tenant and objective, of every tenant of the policy in its present tier."""
        found: dict[tuple[str, str], tuple[Burning, ...]] = {}
        for tenant in policy.tenants:
            for objective in policy.tier(tenant.tier).objectives:
                recent = self._recent.get((tenant.name, tenant.tier, objective.name)) or Recent(self._keep)
                found[tenant.name, objective.name] = burning(objective, recent, at, period(policy))
        return found

"""What is done as a budget is spent: which state it is in, with hysteresis, and what of that is acted on."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from msgspec import Struct

from plimsoll.policy.budget import BudgetRules
from plimsoll.slo.budget import BudgetHealth

UNKNOWN: Final = frozenset(
    {BudgetHealth.NOT_JUDGED, BudgetHealth.NO_PLAN, BudgetHealth.NO_TRAFFIC, BudgetHealth.TOO_FEW}
)
"""States in which nothing is done."""
_LADDER: Final = (BudgetHealth.HEALTHY, BudgetHealth.WARN, BudgetHealth.DEGRADED, BudgetHealth.EXHAUSTED)


class Override(Struct, frozen=True):
    """Somebody decided that nothing is done about a tenant's budget for a time."""

    key: str
    tenant: str
    objective: str  # "": all of the tenant's
    at: float
    until_at: float
    by: str
    why: str = ""

    def holds(self, tenant: str, objective: str, at: float) -> bool:
        """Whether it concerns that budget at that instant."""
        return self.tenant == tenant and self.objective in {"", objective} and self.at <= at < self.until_at


class Action(Struct, frozen=True):
    """A budget went from one state to another: kept in the journal with what was known then."""

    at: float
    tenant: str
    objective: str
    before: BudgetHealth
    after: BudgetHealth
    spent: int
    planned: int | None
    dry_run: bool
    overridden_by: str = ""  # key of the override; "": none


def health(
    before: BudgetHealth, num_judged: int, spent: int, planned: int | None, rules: BudgetRules, *, judged: bool = True
) -> BudgetHealth:
    """The state now, given the one before: entered at its threshold, left `hysteresis` below it."""
    if num_judged == 0:
        return BudgetHealth.NO_TRAFFIC
    if not judged:
        return BudgetHealth.NOT_JUDGED
    if planned is None:
        return BudgetHealth.NO_PLAN
    if planned == 0:
        return BudgetHealth.EXHAUSTED if spent else BudgetHealth.TOO_FEW
    thresholds = (Fraction(0), rules.warn_at, rules.degrade_at, Fraction(1))
    ratio = Fraction(spent, planned)
    reached = max(level for level in range(4) if ratio >= thresholds[level])
    held = _LADDER.index(before) if before in _LADDER else 0
    while held > reached and ratio < thresholds[held] - rules.hysteresis:
        held -= 1
    return _LADDER[max(held, reached)]


def override_of(overrides: Iterable[Override], tenant: str, objective: str, at: float) -> Override | None:
    """The override that holds; the one that ends last where there are several."""
    holding = [each for each in overrides if each.holds(tenant, objective, at)]
    return max(holding, key=lambda each: (each.until_at, each.key), default=None)

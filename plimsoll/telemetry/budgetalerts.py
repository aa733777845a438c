"""Which alerts budgets give rise to: one that burns, one that acts, one that will be gone before its period ends."""

from collections.abc import Mapping, Sequence
from typing import Final

from plimsoll.analytics.burn import Burning
from plimsoll.ledger.assessment import Row
from plimsoll.policy.alerts import Severity
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.burnrate import BurnState
from plimsoll.telemetry.alertdesk import Alert
from plimsoll.units import format_duration

Key = tuple[str, str]
"""(tenant, objective)."""

SOON: Final = 72.0
"""Hours: a budget that is expected to be gone within them is told of."""
_HEALTH: Final = {
    BudgetHealth.WARN: (Severity.TICKET, "is nearly spent"),
    BudgetHealth.DEGRADED: (Severity.TICKET, "is spent so far that requests which are not critical are degraded"),
    BudgetHealth.EXHAUSTED: (Severity.PAGE, "is exhausted"),
}


def alerts_of(rows: Sequence[Row], burning: Mapping[Key, tuple[Burning, ...]]) -> list[Alert]:
    """All that hold now. Unknown states (no traffic, too few, not judged, no plan) are no alerts.

    A burn is told only of objectives that are judged: one that mostly impatient clients speak for pages nobody.
    """
    unknown = {(row.tenant, row.objective) for row in rows if row.health is BudgetHealth.NOT_JUDGED}
    found = [alert for row in rows if (alert := _of_health(row))]
    found += [alert for key, rules in burning.items() if key not in unknown and (alert := _of_burn(key, rules))]
    return found + [alert for row in rows if (alert := _of_outlook(row))]


def _of_health(row: Row) -> Alert | None:
    if row.health not in _HEALTH:
        return None
    severity, words = _HEALTH[row.health]
    spent = "" if row.spent_ratio is None else f" {row.spent_ratio:.1%} of what is planned for {row.period} is spent."
    return Alert(
        f"budget/{row.tenant}/{row.objective}",
        severity,
        f"{row.tenant}: the error budget of {row.objective} {words}",
        f"The error budget of {row.objective} for tenant {row.tenant} {words}.{spent}",
    )


def _of_burn(key: Key, rules: tuple[Burning, ...]) -> Alert | None:
    """The fastest rule that fires speaks."""
    rule = next((each for each in rules if each.state is BurnState.BURNING), None)
    if rule is None:
        return None
    tenant, objective = key
    return Alert(
        f"burn/{tenant}/{objective}",
        Severity(rule.severity),
        f"{tenant}: the error budget of {objective} burns more than {rule.factor:.3g} times too fast",
        f"Over the last {format_duration(rule.long)} it burnt {rule.long_rate:.3g} times as fast as the target allows, "
        f"over the last {format_duration(rule.short)} {rule.short_rate:.3g} times.",
    )


def _of_outlook(row: Row) -> Alert | None:
    ends = row.outlook
    if ends.hours is None or ends.hours > SOON or row.health in {BudgetHealth.EXHAUSTED, BudgetHealth.NOT_JUDGED}:
        return None
    upper = "or not at all this period" if ends.hours_high is None else f"to {ends.hours_high:.0f} h"
    return Alert(
        f"forecast/{row.tenant}/{row.objective}",
        Severity.TICKET,
        f"{row.tenant}: the error budget of {row.objective} will be gone in about {ends.hours:.0f} h",
        f"As it is spent now, with 80 % in {ends.hours_low or 0.0:.0f} h {upper}.",
    )

"""Which alerts budgets give rise to: one that burns, one that acts, one that will be gone before its period ends."""

from collections.abc import Mapping, Sequence
from typing import Final

from plimsoll.analytics.burn import Burning
from plimsoll.analytics.forecast import Forecast
from plimsoll.governor.events import BudgetState
from plimsoll.policy.policy import Severity
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
    BudgetHealth.DEGRADED: (Severity.TICKET, "is so far spent that requests which are not critical are degraded"),
    BudgetHealth.EXHAUSTED: (Severity.PAGE, "is exhausted"),
}


def alerts_of(
    states: Sequence[BudgetState],
    burning: Mapping[Key, tuple[Burning, ...]],
    forecasts: Mapping[Key, Forecast],
) -> list[Alert]:
    """All that hold now. Unknown states (no traffic, too few, not judged, no plan) are no alerts."""
    found = [alert for state in states if (alert := _of_health(state))]
    found += [alert for key, rules in burning.items() if (alert := _of_burn(key, rules))]
    exhausted = {(state.tenant, state.objective) for state in states if state.health is BudgetHealth.EXHAUSTED}
    return found + [
        alert for key, forecast in forecasts.items() if key not in exhausted and (alert := _of_forecast(key, forecast))
    ]


def _of_health(state: BudgetState) -> Alert | None:
    if state.health not in _HEALTH:
        return None
    severity, words = _HEALTH[state.health]
    spent = "" if state.spent_ratio is None else f" {state.spent_ratio:.1%} of what is planned for the period is spent."
    return Alert(
        f"budget/{state.tenant}/{state.objective}",
        severity,
        f"{state.tenant}: the error budget of {state.objective} {words}",
        f"The error budget of {state.objective} for tenant {state.tenant} {words}.{spent}",
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


def _of_forecast(key: Key, forecast: Forecast) -> Alert | None:
    ends = forecast.hours_to_exhaustion
    if ends is None or ends.expected is None or ends.expected > SOON:
        return None
    tenant, objective = key
    upper = "or not at all this period" if ends.upper is None else f"to {ends.upper:.0f} h"
    return Alert(
        f"forecast/{tenant}/{objective}",
        Severity.TICKET,
        f"{tenant}: the error budget of {objective} will be gone in about {ends.expected:.0f} h",
        f"As it is spent now, with 80 % in {ends.low or 0.0:.0f} h {upper}.",
    )

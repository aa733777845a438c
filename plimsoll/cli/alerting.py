"""Alerts beside the budget service: each minute's states, burn and forecasts, told by the policy's channels."""

from collections.abc import Callable, Mapping
from pathlib import Path

from plimsoll.analytics.burn import Burning, burning, period
from plimsoll.errors import UsageError
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.figures import History
from plimsoll.policy.policy import AlertRules, Policy
from plimsoll.slo.recent import Counts, Recent
from plimsoll.storage.budgetminute import Minute
from plimsoll.storage.outlooks import forecast_in
from plimsoll.telemetry.alerts import Alerts, sender
from plimsoll.telemetry.budgetalerts import alerts_of

Key = tuple[str, str]


class Requests(Recent):
    """The books' counts of an objective of requests, in which each is one event."""

    def __init__(self, history: History) -> None:
        super().__init__(0.0)
        self._history = history

    def window(self, until: float, seconds: float) -> Counts:
        """To the minute within the last hours, else by whole hours."""
        judged, bad = self._history.window(until, int(seconds))
        return Counts(bad, judged, bad, judged, bad, bad, judged)


class Alerting:
    """A listener of the budget service. Without channels in the policy it does nothing."""

    def __init__(self, kept: Path, say: Callable[[str], None]) -> None:
        self._kept = kept
        self._say = say
        self._rules = AlertRules()
        self._alerts: Alerts | None = None

    def __call__(self, policy: Policy, minute: Minute, histories: Mapping[Owner, History]) -> None:
        """Tell whatever holds now."""
        if policy.alerts != self._rules:
            self._follow(policy.alerts)
        if self._alerts is not None:
            made = {(row.tenant, row.objective): forecast_in(row.outlook) for row in minute.rows}
            forecasts = {key: forecast for key, forecast in made.items() if forecast is not None}
            firing = alerts_of(minute.report.budgets, burning_of(policy, histories, minute.at), forecasts)
            self._alerts.update(minute.at, firing)

    def close(self) -> None:
        """Send what is due, and stop."""
        if self._alerts is not None:
            self._alerts.close()
            self._alerts = None

    def _follow(self, rules: AlertRules) -> None:
        self.close()
        self._rules = rules
        if rules.channels:
            try:
                self._alerts = Alerts(rules, sender(rules), self._say, kept=self._kept)
            except UsageError as error:
                self._say(f"no alerts: {error}")


def burning_of(policy: Policy, histories: Mapping[Owner, History], at: float) -> dict[Key, tuple[Burning, ...]]:
    """Burn of objectives of requests. Those of tokens are left out: the books do not keep what their requests share."""
    found: dict[Key, tuple[Burning, ...]] = {}
    for tenant in policy.tenants:
        for objective in policy.tier(tenant.tier).objectives:
            history = histories.get(Owner(tenant.name, objective.name))
            if history is not None and not objective.counts_tokens:
                found[tenant.name, objective.name] = burning(objective, Requests(history), at, period(policy))
    return found

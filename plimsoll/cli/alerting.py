"""Alerts beside the books: the projector's process tells people what each minute's assessment came to."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import duckdb

from plimsoll.analytics.burn import burning_runs
from plimsoll.errors import PlimsollError
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.figures import History
from plimsoll.policy.alerts import AlertRules
from plimsoll.policy.policy import Policy
from plimsoll.storage.budgetminute import Minute
from plimsoll.storage.burnlog import BurnWatch
from plimsoll.telemetry.alerts import Alerts, sender
from plimsoll.telemetry.budgetalerts import Key, alerts_of

KEPT: Final = "alerts.json"
"""In the data directory: what receivers were told."""


class Alerting:
    """Called once a minute; costs nothing where the policy names no channels. Follows changes of the policy."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._say = say
        self._watch = BurnWatch(directory)
        self._rules = AlertRules()
        self._alerts: Alerts | None = None
        self._trouble = ""

    def __call__(self, policy: Policy, minute: Minute, histories: Mapping[Owner, History]) -> None:
        """Tell what holds; trouble is said once and never stops the books. Burn is read from the log, tokens too."""
        try:
            self._follow(policy.alerts)
            if self._alerts is not None:
                burning = self._watch.burning(policy, minute.at) | burning_runs(policy, histories, minute.at)
                judged: dict[Key, bool] = {(row.tenant, row.objective): True for row in minute.rows}
                self._alerts.update(
                    minute.at, alerts_of(minute.rows, {key: rules for key, rules in burning.items() if key in judged})
                )
        except (PlimsollError, OSError, duckdb.Error) as error:
            if str(error) != self._trouble:
                self._say(f"no alerts are sent: {error}")
            self._trouble = str(error)
        else:
            self._trouble = ""

    def close(self) -> None:
        """Send what is due, and stop."""
        if self._alerts is not None:
            self._alerts.close()
            self._alerts = None

    def _follow(self, rules: AlertRules) -> None:
        if rules == self._rules and (self._alerts is not None or not rules.channels):
            return
        self.close()
        self._rules = rules
        if rules.channels:
            self._alerts = Alerts(rules, sender(rules), self._say, kept=self._directory / KEPT)

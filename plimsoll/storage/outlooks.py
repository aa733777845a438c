"""Forecasts as budgets use them: one an hour for each objective, a few a minute, aged in between.

The one place that knows what `analytics/forecast` calls things. Imports numpy: not for `serve`.
"""

import time
from collections.abc import Mapping
from typing import Final

from plimsoll.analytics.forecast import DAY, HOUR, MIN_DAYS, Forecast, ForecastState, forecast
from plimsoll.analytics.knownchanges import NOTHING_KNOWN, Ahead, known_ahead
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.assessment import NO_HISTORY, Outlook, Row
from plimsoll.ledger.figures import History
from plimsoll.policy.budget import BudgetRules
from plimsoll.slo.budget import period_bounds

AT_ONCE: Final = 5.0
"""s of forecasting within one minute; what is left waits for the next."""


class Outlooks:
    """Kept between minutes."""

    def __init__(self, at_once: float = AT_ONCE) -> None:
        self._made: dict[Owner, tuple[int, Ahead, float, Outlook]] = {}  # hour, known, instant, forecast
        self._at_once = at_once

    def of(
        self, rows: list[Row], histories: Mapping[Owner, History], rules: BudgetRules, at: float
    ) -> dict[Owner, Outlook]:
        """By owner; those that no forecast was made for yet are absent. Made anew where `rules` change."""
        deadline = time.monotonic() + self._at_once
        hour = int(at // 3600)
        for row in rows:
            owner = Owner(row.tenant, row.objective)
            made, history = self._made.get(owner), histories.get(owner, NO_HISTORY)
            ahead = known_ahead(rules, *owner)
            fresh = made is not None and made[:2] == (hour, ahead) and not _soon_known(made[3], history)
            if not fresh and time.monotonic() < deadline:
                self._made[owner] = (hour, ahead, at, foretold(row, history, at, ahead))
        return {owner: aged(outlook, at - made_at) for owner, (_, _, made_at, outlook) in self._made.items()}


def _soon_known(outlook: Outlook, history: History) -> bool:
    """Whether a state without numbers may be another one a minute later: it costs little to ask again."""
    return outlook.expected is None and 0 < len(history.hours) <= MIN_DAYS * DAY + 1


def foretold(row: Row, history: History, at: float, ahead: Ahead = NOTHING_KNOWN) -> Outlook:
    """The forecast of one objective, until exhausted or the month's end."""
    if not history.hours:
        return Outlook(ForecastState.NO_TRAFFIC.value)
    remaining = None if row.planned is None else max(0, row.planned - row.num_spent)
    end = period_bounds(row.period, row.zone)[1]
    counts = history.counts()

    def ask(now: float) -> Forecast:
        return forecast(counts, now, zone=row.zone, remaining=remaining, until=end, **ahead._asdict())

    made = ask(at)
    if made.state is not ForecastState.FORECAST:  # then the hour that has begun says more, as it does at a log's end
        made = ask((at // HOUR + 1) * HOUR)
    return _outlook(made)


def _outlook(made: Forecast) -> Outlook:
    day, gone = made.next_day, made.hours_to_exhaustion
    return Outlook(
        made.state.value,
        None if day is None else day.low,
        None if day is None else day.expected,
        None if day is None else day.upper,
        None if gone is None else gone.low,
        None if gone is None else gone.expected,
        None if gone is None else gone.upper,
    )


def aged(outlook: Outlook, seconds: float) -> Outlook:
    """The same forecast a little later: the hours until exhaustion have shrunk."""
    passed = seconds / 3600

    def less(hours: float | None) -> float | None:
        return None if hours is None else max(0.0, hours - passed)

    return Outlook(
        outlook.state, outlook.low, outlook.expected, outlook.upper,
        less(outlook.hours_low), less(outlook.hours), less(outlook.hours_high),
    )  # fmt: skip

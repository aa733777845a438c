"""Which requests of a log are meant, and what each of them waited: as SQL, for the views that gathering reads."""

from collections.abc import Iterable
from typing import Final

from plimsoll.analytics.gathering import Window
from plimsoll.analytics.tally import NOT_WAITING
from plimsoll.policy.budget import ExceptionWindow
from plimsoll.slo.outcome import Outcome


def quoted(text: str) -> str:
    """As an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def within(window: Window, *, since: bool = True) -> str:
    """The condition that a request is of that window; without `since` whatever its beginning."""
    parts = ["true"]
    if since and window.since > float("-inf"):
        parts.append(f"arrived_at >= {window.since!r}::DOUBLE")
    if window.until < float("inf"):
        parts.append(f"arrived_at < {window.until!r}::DOUBLE")
    if window.tenant is not None:
        parts.append(f"tenant = {quoted(window.tenant)}")
    return " AND ".join(parts)


def excepted(windows: Iterable[ExceptionWindow]) -> str:
    """The condition that a request arrived in a window of exception (`ledger.booking.window_of` in SQL)."""
    parts = ["false"]
    for each in windows:
        named = f" AND tenant IN ({', '.join(map(quoted, each.tenants))})" if each.tenants else ""
        parts.append(f"(arrived_at >= {each.from_at!r}::DOUBLE AND arrived_at < {each.until_at!r}::DOUBLE{named})")
    return " OR ".join(parts)


BROKE: Final = "charge IS NOT NULL"
"""Whether a request missed an objective: exactly then its row has a charge, which reads a hundred times as fast."""
WAITED: Final = f"""finished_at - arrived_at AS waited,
    outcome NOT IN ('{Outcome.REJECTED.value}', '{Outcome.COMPLETED.value}')
        AND reason NOT IN ({", ".join(quoted(reason.value) for reason in sorted(NOT_WAITING))}) AS waiting"""
"""Columns of the view `chosen`: s, and whether a request that did not complete had waited (`analytics.tally`)."""

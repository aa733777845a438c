"""Fills the running sums of burn rates from a request log: at a start, or for one look.

Imports duckdb: not for `serve`.
"""

from pathlib import Path

import duckdb

from plimsoll.analytics.burn import Burning, Recents, longest_window
from plimsoll.policy.policy import Policy
from plimsoll.slo.recent import MINUTE, Counts
from plimsoll.storage.chosen import excepted
from plimsoll.storage.query import connect

_MINUTES = """
SELECT tenant, tier, objective, minute, sum(bad)::HUGEINT, sum(judged)::HUGEINT, count_if(bad > 0), count(*),
    sum(bad * bad)::HUGEINT, sum(bad * judged)::HUGEINT, sum(judged * judged)::HUGEINT
FROM (SELECT tenant, tier, v.objective AS objective, minute, v.num_bad::HUGEINT AS bad,
        (v.num_good + v.num_bad)::HUGEINT AS judged
    FROM (SELECT tenant, tier, floor(finished_at / 60)::BIGINT AS minute, unnest(verdicts) AS v
        FROM requests WHERE finished_at >= ? AND finished_at < ? AND NOT ({excepted})))
WHERE judged > 0 GROUP BY ALL ORDER BY minute
"""


def recents_of(connection: duckdb.DuckDBPyConnection, policy: Policy, until: float) -> Recents:
    """What the policy's longest window before `until` (UTC epoch s) needs; the connection has the view `requests`.

    What arrived in windows of exception burns no budget.
    """
    keep = longest_window(policy)
    recents = Recents(keep)
    _add(recents, connection, policy, (until - keep - MINUTE, until))
    return recents


def _add(recents: Recents, connection: duckdb.DuckDBPyConnection, policy: Policy, ended: tuple[float, float]) -> None:
    query = _MINUTES.format(excepted=excepted(policy.budget.exceptions))
    for tenant, tier, objective, minute, *sums in connection.execute(query, ended).fetchall():
        recents.add(tenant, tier, objective, float(minute * MINUTE), Counts(*map(int, sums)))


class BurnWatch:
    """Looks at a data directory's log once a minute, each time only at the minutes that are new."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._recents: Recents | None = None
        self._keep = 0.0
        self._until = 0.0

    def burning(self, policy: Policy, at: float) -> dict[tuple[str, str], tuple[Burning, ...]]:
        """By tenant and objective, by what ended before the minute of `at` (UTC epoch s)."""
        until = at // MINUTE * MINUTE
        keep = longest_window(policy)
        if self._recents is None or keep > self._keep:
            self._recents, self._keep, self._until = Recents(keep), keep, until - keep - MINUTE
        if until > self._until:
            with connect(self._directory, self._until) as connection:
                _add(self._recents, connection, policy, (self._until, until))
            self._until = until
        return self._recents.burning(policy, until - MINUTE)

"""Fills the running sums of burn rates from a request log: at a start, or for one look.

Imports duckdb: not for `serve`.
"""

import duckdb

from plimsoll.analytics.burn import Recents, longest_window
from plimsoll.policy.policy import Policy
from plimsoll.slo.recent import MINUTE, Counts

_MINUTES = """
SELECT tenant, tier, objective, minute, sum(bad)::HUGEINT, sum(judged)::HUGEINT, count_if(bad > 0), count(*),
    sum(bad * bad)::HUGEINT, sum(bad * judged)::HUGEINT, sum(judged * judged)::HUGEINT
FROM (SELECT tenant, tier, v.objective AS objective, minute, v.num_bad::HUGEINT AS bad,
        (v.num_good + v.num_bad)::HUGEINT AS judged
    FROM (SELECT tenant, tier, floor(finished_at / 60)::BIGINT AS minute, unnest(verdicts) AS v
        FROM requests WHERE finished_at >= ?))
WHERE judged > 0 GROUP BY ALL ORDER BY minute
"""


def recents_of(connection: duckdb.DuckDBPyConnection, policy: Policy, until: float) -> Recents:
    """What the policy's longest window before `until` (UTC epoch s) needs; the connection has the view `requests`."""
    keep = longest_window(policy)
    recents = Recents(keep)
    for tenant, tier, objective, minute, *sums in connection.execute(_MINUTES, [until - keep - MINUTE]).fetchall():
        recents.add(tenant, tier, objective, float(minute * MINUTE), Counts(*map(int, sums)))
    return recents

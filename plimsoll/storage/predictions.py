"""How far predictions of replicas were off, from the log: rows keep what was foreseen at dispatch beside what came.

Errors are |predicted − actual| ÷ actual; bias is the mean of predicted ÷ actual − 1: positive is too pessimistic. Time
to the first token counts from the dispatch. Imports duckdb.
"""

from typing import Final

import duckdb
from msgspec import Struct

from plimsoll.analytics.gathering import Window

_ERRORS: Final = """
    WITH foreseen AS (
        SELECT pool, replica,
            CASE WHEN hedge <> 'won' AND first_token_at > dispatched_at
                THEN predicted_ttft / (first_token_at - dispatched_at) - 1 END AS ttft,
            CASE WHEN tpot > 0 THEN predicted_tpot / tpot - 1 END AS tpot
        FROM requests
        WHERE arrived_at >= ? AND arrived_at < ? AND replica <> ''
            AND (predicted_ttft IS NOT NULL OR predicted_tpot IS NOT NULL)
    )
    SELECT pool, replica,
        count(ttft), quantile_cont(abs(ttft), 0.5), quantile_cont(abs(ttft), 0.9), avg(ttft),
        count(tpot), quantile_cont(abs(tpot), 0.5), quantile_cont(abs(tpot), 0.9), avg(tpot)
    FROM foreseen GROUP BY GROUPING SETS ((pool, replica), (pool)) ORDER BY pool, replica NULLS LAST
"""


class Error(Struct, frozen=True):
    """Of `num` predictions, as ratios; None where there were none."""

    num: int
    median: float | None
    p90: float | None
    bias: float | None


class ReplicaErrors(Struct, frozen=True):
    """Of one replica, or of a whole pool where `replica` is ""."""

    pool: str
    replica: str
    ttft: Error
    tpot: Error


class Predictions(Struct, frozen=True):
    """Of a log."""

    source: str
    replicas: tuple[ReplicaErrors, ...]  # by pool; the pool itself after its replicas


def predictions_of(connection: duckdb.DuckDBPyConnection, window: Window, source: str) -> Predictions:
    """Of the requests that arrived in the window; the connection has the view `requests` (`storage/query`)."""
    rows = connection.execute(_ERRORS, [window.since, window.until]).fetchall()
    replicas = [ReplicaErrors(row[0], row[1] or "", Error(*row[2:6]), Error(*row[6:10])) for row in rows]
    return Predictions(source, tuple(replicas))

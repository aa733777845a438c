"""Judged and bad events by hour, from a request log: what forecasts are made of.

Imports duckdb: not for `serve`.
"""

from collections.abc import Iterable
from pathlib import Path

import duckdb

from plimsoll.errors import StorageError, UsageError
from plimsoll.policy.budget import ExceptionWindow
from plimsoll.slo.budget import HourCount
from plimsoll.storage.chosen import excepted, quoted
from plimsoll.storage.query import connect

Hourly = dict[tuple[str, str], list[HourCount]]
"""By (tenant, objective), hours ascending, those without anything judged absent."""

_HOURS = """
SELECT tenant, v.objective, floor(finished_at / 3600)::BIGINT AS hour,
    sum(v.num_good + v.num_bad)::BIGINT, sum(v.num_bad)::BIGINT
FROM (SELECT tenant, finished_at, unnest(verdicts) AS v FROM requests WHERE {of} AND NOT ({excepted}))
GROUP BY ALL HAVING sum(v.num_good + v.num_bad) > 0 ORDER BY ALL
"""


def hours_of(log: Path, exceptions: Iterable[ExceptionWindow] = ()) -> Hourly:
    """Of a data directory (Parquet and the journal's tail), a Parquet file of its kind, or a folder of such files.

    An hour is that in which requests ended: when what they spent was known. What arrived in `exceptions` is left out,
    as it is of the books. Raises UsageError where there is no log,
    StorageError where a file cannot be read.
    """
    hours = _HOURS.format(of="true", excepted=excepted(exceptions))
    if log.is_dir() and not any(log.glob("*.parquet")):
        with connect(log) as connection:
            return _hourly(connection, hours)
    if not log.exists():
        raise UsageError(
            f"no log at {log}: give a data directory, a Parquet file of requests or a folder of such files"
        )
    files = sorted(log.glob("*.parquet")) if log.is_dir() else [log]
    with duckdb.connect(":memory:") as connection:
        names = ", ".join(quoted(str(file)) for file in files)
        try:
            connection.execute(f"CREATE VIEW requests AS SELECT * FROM read_parquet([{names}], union_by_name = true)")
            return _hourly(connection, hours)
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise StorageError(f"{log} is not a request log of Plimsoll ({reason})") from error


def hourly_of(connection: duckdb.DuckDBPyConnection, tenant: str, exceptions: Iterable[ExceptionWindow] = ()) -> Hourly:
    """The same of one tenant, from a connection with the view `requests`."""
    return _hourly(connection, _HOURS.format(of=f"tenant = {quoted(tenant)}", excepted=excepted(exceptions)))


def _hourly(connection: duckdb.DuckDBPyConnection, hours: str) -> Hourly:
    found: Hourly = {}
    for tenant, objective, hour, judged, bad in connection.execute(hours).fetchall():
        found.setdefault((tenant, objective), []).append(HourCount(hour, judged, bad))
    return found

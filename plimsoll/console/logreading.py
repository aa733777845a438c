"""What pages read from a data directory's log: values by minute, tenant and replica, all from one look.

Imports duckdb. The console has a process of its own; nothing here waits for a gateway or is waited for by one.
"""

from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

import duckdb
from msgspec import Struct

from plimsoll.analytics.gathering import Window
from plimsoll.analytics.tails import TailGroup
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.logfiles import log_files
from plimsoll.storage.logspans import span_of_file
from plimsoll.storage.query import connect
from plimsoll.storage.tails import tails

NO_GAPS: Final = "REPLACE (CASE WHEN false THEN itl_sketches END AS itl_sketches)"
"""Leaves token gaps unread: taking their sketches apart is most of what a look costs, and these pages show none."""
HOUR: Final = 3600.0
MINUTE: Final = 60.0


class Span(Struct, frozen=True):
    """The first arrival and the last end in a log, UTC epoch s; None where it is empty."""

    first: float | None
    last: float | None


class MinuteLoad(Struct, frozen=True):
    """What arrived in one minute for a pool in one tier. Tokens are those of prompts and answers together."""

    pool: str
    tier: str
    minute: int  # UTC epoch s ÷ 60
    num: int
    tokens: int


class Judged(Struct, frozen=True):
    """What was judged of one objective of a tier in a pool, or of a tenant, in one minute (or in all: minute 0)."""

    owner: str
    tier: str
    objective: str
    minute: int
    good: int
    bad: int
    charges: dict[str, int]


class ReplicaLoad(Struct, frozen=True):
    """One replica in a window, by what the log has of it."""

    pool: str
    replica: str
    num: int
    failed: int
    output_tokens: int
    kv_usage: float | None  # mean of what it said before each dispatch
    running: float | None
    ttft_median: float | None
    hit_ratio: float | None  # prompt tokens found in its prefix cache
    evicted: int


class Hour(Struct, frozen=True):
    """A window of the log as the first pages want it."""

    since: float
    until: float
    num: int
    tenants: tuple[TailGroup, ...]  # by tenant and tier: TTFT, nothing of other latencies
    loads: tuple[MinuteLoad, ...]
    judged: tuple[Judged, ...]  # by tenant, over the window
    outcomes: dict[str, int]
    replicas: tuple[ReplicaLoad, ...]


class Day(Struct, frozen=True):
    """A longer window, for the safe load: minutes by pool and tier."""

    since: float
    until: float
    loads: tuple[MinuteLoad, ...]
    judged: tuple[Judged, ...]  # by pool, tier, minute


def span_of(root: Path) -> Span:
    """When the log begins and ends: what lies in files by their footers, the rest row by row."""
    spans = [span_of_file(each) for each in log_files(DataDirectory(root).requests)]
    are_known = all(isfinite(each.first_arrival) and isfinite(each.last_end) for each in spans)
    with connect(root, inf if are_known else -inf) as connection:
        first, last = _rows(connection, "SELECT min(arrived_at), max(finished_at) FROM requests")[0]
    firsts = [each.first_arrival for each in spans if are_known] + ([] if first is None else [first])
    lasts = [each.last_end for each in spans if are_known] + ([] if last is None else [last])
    return Span(min(firsts, default=None), max(lasts, default=None))


def read_hour(root: Path, since: float, until: float) -> Hour:
    """Requests that arrived in [since, until)."""
    with connect(root, since) as connection:
        return hour_of(connection, since, until)


def hour_of(connection: duckdb.DuckDBPyConnection, since: float, until: float) -> Hour:
    """The same from a connection with the view `requests`; the window's rows are taken once."""
    _window(connection, since, until)
    found = tails(connection, Window(since, until), ("tenant", "tier"), None, "", wanted=("ttft",))
    outcomes = dict(_rows(connection, "SELECT outcome, count(*) FROM requests GROUP BY 1 ORDER BY 2 DESC"))
    return Hour(
        since=since,
        until=until,
        num=found.num,
        tenants=found.groups,
        loads=_loads(connection),
        judged=_judged(connection, "tenant", "0"),
        outcomes={str(name): int(num) for name, num in outcomes.items()},
        replicas=_replicas(connection),
    )


def read_day(root: Path, since: float, until: float) -> Day:
    """Minutes by pool and tier in [since, until)."""
    with connect(root, since) as connection:
        _window(connection, since, until)
        return Day(since, until, _loads(connection), _judged(connection, "pool", "floor(arrived_at / 60)::BIGINT"))


def _window(connection: duckdb.DuckDBPyConnection, since: float, until: float) -> None:
    """From here on `requests` is only that window; a table, since it is looked at several times."""
    connection.execute("SET threads = 2")
    connection.execute(
        f"""CREATE TEMP TABLE windowed AS SELECT * EXCLUDE (entries) {NO_GAPS} FROM requests
        WHERE arrived_at >= {since!r}::DOUBLE AND arrived_at < {until!r}::DOUBLE"""
    )
    connection.execute("CREATE OR REPLACE TEMP VIEW requests AS SELECT * FROM windowed")


def _loads(connection: duckdb.DuckDBPyConnection) -> tuple[MinuteLoad, ...]:
    rows = _rows(
        connection,
        """SELECT pool, tier, floor(arrived_at / 60)::BIGINT, count(*), sum(prompt_tokens + output_tokens)::BIGINT
        FROM requests GROUP BY ALL ORDER BY ALL""",
    )
    return tuple([MinuteLoad(pool or "", tier, minute, num, tokens) for pool, tier, minute, num, tokens in rows])


def _judged(connection: duckdb.DuckDBPyConnection, owner: str, minute: str) -> tuple[Judged, ...]:
    found: dict[tuple[str, str, str, int], tuple[list[int], dict[str, int]]] = {}
    for name, tier, objective, at, charge, good, bad in _rows(
        connection,
        f"""SELECT owner, tier, v.objective, minute, v.charge, sum(v.num_good)::BIGINT, sum(v.num_bad)::BIGINT
        FROM (SELECT {owner} AS owner, tier, {minute} AS minute, unnest(verdicts) AS v FROM requests)
        WHERE v.num_good + v.num_bad > 0 GROUP BY ALL ORDER BY 1, 2, 3, 4, 5""",
    ):
        counts, charges = found.setdefault((name or "", tier, objective, at), ([0, 0], {}))
        counts[0] += good
        counts[1] += bad
        if charge and bad:
            charges[charge] = charges.get(charge, 0) + bad
    return tuple([Judged(*key, counts[0], counts[1], charges) for key, (counts, charges) in found.items()])


def _replicas(connection: duckdb.DuckDBPyConnection) -> tuple[ReplicaLoad, ...]:
    rows = _rows(
        connection,
        """SELECT pool, replica, count(*), count_if(outcome = 'failed'), sum(output_tokens)::BIGINT,
            avg(report_kv_usage), avg(report_running), median(ttft),
            sum(cached_tokens) / nullif(sum(CASE WHEN cached_tokens IS NULL THEN 0 ELSE prompt_tokens END), 0),
            count_if(outcome = 'evicted')
        FROM requests WHERE replica <> '' GROUP BY ALL ORDER BY 1, 2""",
    )
    return tuple([ReplicaLoad(*row) for row in rows])


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()

"""Page 4: prefix cache. Hit ratio against P99 on one time axis, by replica and tenant. Pure but for `read_cache`."""

from pathlib import Path

from msgspec import Struct

from plimsoll.analytics.gathering import Window
from plimsoll.analytics.tails import TailGroup
from plimsoll.console.logreading import NO_GAPS
from plimsoll.console.plots import Band, Lines, Series
from plimsoll.console.tenantreading import step_of
from plimsoll.storage.query import connect
from plimsoll.storage.tails import tails
from plimsoll.units import format_duration

_HITS = """sum(cached_tokens)::DOUBLE / nullif(sum(CASE WHEN cached_tokens IS NULL THEN 0 ELSE prompt_tokens END), 0)"""


class CacheRow(Struct, frozen=True):
    """A tenant or replica: share of prompt tokens found in the cache, of how many tokens; None: no engine told."""

    name: str
    num: int
    hit_ratio: float | None
    prompt_tokens: int
    cached_tokens: int | None
    p50: float | None
    p99: float | None
    evicted: int


class CacheLog(Struct, frozen=True):
    """A window of the log."""

    since: float
    until: float
    every: float
    num: int
    slices: tuple[TailGroup, ...]
    hits: tuple[tuple[float, float | None], ...]  # start of a slice, ratio
    tenants: tuple[CacheRow, ...]
    replicas: tuple[CacheRow, ...]
    tiers: tuple[CacheRow, ...]


class CacheView(Struct, frozen=True):
    """The page. `told`: any engine said what it had cached."""

    window: str
    log: CacheLog
    chart: Lines
    told: bool


def read_cache(root: Path, since: float, until: float) -> CacheLog:
    """Requests that arrived in [since, until)."""
    with connect(root, since) as connection:
        connection.execute(
            f"""CREATE TEMP TABLE windowed AS SELECT * EXCLUDE (entries) {NO_GAPS} FROM requests
            WHERE arrived_at >= {since!r}::DOUBLE AND arrived_at < {until!r}::DOUBLE"""
        )
        connection.execute("CREATE OR REPLACE TEMP VIEW requests AS SELECT * FROM windowed")
        (num,) = connection.execute("SELECT count(*) FROM requests").fetchall()[0]
        every = step_of(until - since, num)
        found = tails(connection, Window(since, until), (), every, "")
        hits = connection.execute(
            f"SELECT floor(arrived_at / {every!r}) * {every!r}, {_HITS} FROM requests GROUP BY 1 ORDER BY 1"
        ).fetchall()

        def rows(column: str) -> tuple[CacheRow, ...]:
            query = f"""SELECT {column}, count(*), {_HITS}, sum(prompt_tokens)::BIGINT, sum(cached_tokens)::BIGINT,
                quantile_cont(ttft, 0.5), quantile_cont(ttft, 0.99), count_if(outcome = 'evicted')
                FROM requests WHERE {column} <> '' GROUP BY 1 ORDER BY 4 DESC, 1 LIMIT 200"""
            return tuple([CacheRow(*row) for row in connection.execute(query).fetchall()])

        return CacheLog(
            since, until, every, found.num, found.groups, tuple(hits), rows("tenant"), rows("replica"), rows("tier")
        )


def cache_view(log: CacheLog, window: str, zone: str) -> CacheView:
    """The page from what was read."""
    middle = log.every / 2
    p90, p99, band = [], [], []
    for group in sorted(log.slices, key=lambda group: group.slice or 0.0):
        ttft = next(each for each in group.latencies if each.name == "ttft")
        found = next(each for each in ttft.quantiles if each.quantile == 0.99)
        p99.append(((group.slice or 0.0) + middle, found.value))
        p90.append(((group.slice or 0.0) + middle, next(each for each in ttft.quantiles if each.quantile == 0.9).value))
        if found.low is not None and found.high is not None:
            band.append(((group.slice or 0.0) + middle, found.low, found.high))
    hits = tuple([(at + middle, ratio) for at, ratio in log.hits])
    told = any(ratio is not None for _, ratio in hits)
    chart = Lines(
        name="cache", title="Hit ratio against P99 of TTFT", unit="s",
        window=f"{format_duration(log.until - log.since)} / {format_duration(log.every)}", num=log.num,
        series=(Series("P99 of TTFT (left)", tuple(p99), "s2"), Series("P90 of TTFT (left)", tuple(p90), "s3")),
        bands=(Band("P99, 95 % interval", tuple(band), "s2"),) if band else (),
        zone=zone, right=(Series("hit ratio (right)", hits, "s1"),) if told else (), right_unit="%",
    )  # fmt: skip
    return CacheView(window, log, chart, told)

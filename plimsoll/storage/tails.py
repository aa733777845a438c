"""Gathers the tails of a log by any labels and by slices of time, in memory that grows with groups."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import duckdb

from plimsoll.analytics.gathering import Window
from plimsoll.analytics.tails import OTHERS, Group, PowerLaw, TailGroup, Tails, power_law, tail_group
from plimsoll.storage.chosen import BROKE, WAITED, within
from plimsoll.storage.sketches import LATENCIES, cut_streams, gap_sketches, latency_sketches, uncut_gaps

_LENGTH: Final = """CASE WHEN prompt_tokens = 0 THEN 'unknown' WHEN prompt_tokens < 1024 THEN 'below 1k'
    WHEN prompt_tokens < 4096 THEN '1k to 4k' WHEN prompt_tokens < 8192 THEN '4k to 8k'
    WHEN prompt_tokens < 32768 THEN '8k to 32k' ELSE '32k and more' END"""
_TENANTS: Final = """CASE WHEN num_tenants <= 3 THEN '1 to 3' WHEN num_tenants <= 7 THEN '4 to 7'
    WHEN num_tenants <= 15 THEN '8 to 15' ELSE '16 and more' END"""
_VARIATION: Final = """CASE WHEN variation IS NULL THEN 'unknown' WHEN variation < 0.5 THEN 'below 0.5'
    WHEN variation < 1 THEN '0.5 to 1' WHEN variation < 2 THEN '1 to 2' ELSE '2 and more' END"""
LABELS: Final = {
    "tenant": "tenant", "tier": "tier", "pool": "pool", "replica": "replica", "model": "model", "adapter": "adapter",
    "cause": "cause", "length": _LENGTH, "tenants": _TENANTS, "variation": _VARIATION,
}  # fmt: skip
"""What one may group by → its SQL. `tenants`: how many there were in the minute; `variation`: of prompt lengths."""

MAX_GROUPS: Final = 500
"""Groups with figures of their own (by slice: of these each), the largest; the others are one."""


def tails(
    connection: duckdb.DuckDBPyConnection,
    window: Window,
    by: Sequence[str],
    every: float | None,
    source: str,
    *,
    most: int = MAX_GROUPS,
    wanted: Collection[str] = LATENCIES,
) -> Tails:
    """The tails of that window; the connection has the view `requests` (`storage/query.py`). `every` in s.

    Of latencies that are not `wanted` nothing is known.
    """
    _choose(connection, window, by, every)
    labels = [f"l{index}" for index in range(len(by))]
    counted = connection.execute(
        f"SELECT {', '.join([*labels, 'slice'])}, count(*), count_if(broke) FROM chosen GROUP BY ALL"
    ).fetchall()
    common, num_groups = _common(counted, len(labels), most)
    groups: dict[tuple[Any, ...], Group] = {}
    keys = ", ".join([*labels, "slice"])
    width = len(labels) + 1

    def group_of(key: Sequence[Any]) -> Group:
        named = tuple(key[:-1]) if tuple(key[:-1]) in common else (OTHERS,) * len(labels)
        return groups.setdefault((*named, key[-1]), Group())

    for row in counted:
        group = group_of(row[:width])
        group.num += row[width]
        group.num_bad += row[width + 1]
    for key, sketch in latency_sketches(connection, keys, wanted):
        latency = group_of(key[:width]).latencies[key[width]]
        (latency.cut_off if key[width + 1] else latency.seen).merge(sketch)
    for key, sketch in gap_sketches(connection, keys).items():
        group_of(key[:width]).itl[key[width] - 1].merge(sketch)
    _uncut(connection, keys, groups, group_of)
    whole = Group()
    for group in groups.values():
        whole.merge(group)
    return Tails(
        source=source,
        by=tuple(by),
        every=every,
        num=whole.num,
        num_folded=max(0, num_groups - len(common)),
        groups=tuple(_figures(groups, by)),
        whole=tail_group(whole, {}),
        violations=_violations(connection),
    )


def _uncut(
    connection: duckdb.DuckDBPyConnection,
    keys: str,
    groups: dict[tuple[Any, ...], Group],
    group_of: Callable[[Sequence[Any]], Group],
) -> None:
    """Token gaps as if no stream had been cut; where none was, those that were seen."""
    if not any(part.num for group in groups.values() for part in group.itl):
        return
    cut = cut_streams(connection, keys)
    if not cut:
        return
    for key, streams in cut.items():
        mine = group_of(key).uncut
        mine.num += streams.num
        mine.num_cut += streams.num_cut
        mine.num_unseen += streams.unseen_ratio * streams.num
    for key, sketch, worth in uncut_gaps(connection, keys, cut):
        mine = group_of(key).uncut
        mine.gaps.merge(sketch)
        mine.worth += worth
    whole = {id(group_of(key)) for key in cut}
    for group in groups.values():
        if id(group) not in whole:
            for part in group.itl:
                group.uncut.gaps.merge(part)
                group.uncut.worth += part.num


def _choose(connection: duckdb.DuckDBPyConnection, window: Window, by: Sequence[str], every: float | None) -> None:
    source = f"SELECT * FROM requests WHERE {within(window)}"
    if "tenants" in by:
        source = f"""SELECT r.*, m.num_tenants FROM ({source}) r JOIN (
            SELECT floor(arrived_at / 60) AS minute, count(DISTINCT tenant) AS num_tenants FROM requests GROUP BY ALL
        ) m ON floor(r.arrived_at / 60) = m.minute"""
    if "variation" in by:
        source = f"""SELECT r.*, v.variation FROM ({source}) r JOIN (
            SELECT tenant AS of, stddev_samp(prompt_tokens) / nullif(avg(prompt_tokens), 0) AS variation
            FROM requests GROUP BY ALL) v ON r.tenant = v.of"""
    labels = "".join(f", {LABELS[name]} AS l{index}" for index, name in enumerate(by))
    start = "NULL::DOUBLE" if every is None else f"floor(arrived_at / {every!r}) * {every!r}"
    connection.execute(
        f"""CREATE OR REPLACE TEMP VIEW chosen AS SELECT *{labels}, {start} AS slice,
            {WAITED},
            {BROKE} AS broke
        FROM ({source})"""
    )


def _common(counted: list[tuple[Any, ...]], width: int, most: int) -> tuple[set[tuple[Any, ...]], int]:
    """The largest groups of rows (labels, slice, requests, …), and how many there are."""
    sizes: dict[tuple[Any, ...], int] = {}
    for row in counted:
        sizes[row[:width]] = sizes.get(row[:width], 0) + row[width + 1]
    ranked = sorted(sizes, key=lambda labels: (-sizes[labels], labels))
    return set(ranked[:most]), len(ranked)


def _figures(groups: dict[tuple[Any, ...], Group], by: Sequence[str]) -> list[TailGroup]:
    """Largest first; slices of one group together, in order of time."""
    sizes: dict[tuple[Any, ...], int] = {}
    for key, group in groups.items():
        sizes[key[:-1]] = sizes.get(key[:-1], 0) + group.num
    ranked = sorted(groups, key=lambda key: (-sizes[key[:-1]], key[:-1], key[-1] or 0.0))
    return [tail_group(groups[key], dict(zip(by, map(str, key[:-1]), strict=True)), key[-1]) for key in ranked]


def _violations(connection: duckdb.DuckDBPyConnection) -> PowerLaw | None:
    """Over minutes of single tenants, by octave of their requests."""
    rows = connection.execute(
        """SELECT avg(num), avg(bad), count(*) FROM (
            SELECT count(*) AS num, count_if(broke) AS bad FROM chosen GROUP BY tenant, floor(arrived_at / 60)::INTEGER
        ) GROUP BY floor(log2(num)) ORDER BY 1"""
    ).fetchall()
    return power_law([(float(num), float(bad), int(minutes)) for num, bad, minutes in rows])

"""Sketches of a log's latencies by any grouping: DuckDB counts by bucket, only counts come to Python.

Groups of at most 1,024 values bring the values themselves, since their quantiles are exact. All read the view `chosen`.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

import duckdb
import pyarrow as pa

from plimsoll.slo.cutstreams import CutStreams
from plimsoll.slo.quantiles import EXACT_UP_TO, Sketch
from plimsoll.storage.resemblance import LATENCY_ROWS

_ZERO: Final = -50_000
"""Stands for the bucket of what is not above 0: below that of any float."""
_SEEN: Final = {
    "ttft": (
        "CASE WHEN NOT streaming THEN NULL WHEN ttft IS NOT NULL THEN ttft WHEN waiting THEN waited END",
        "ttft IS NULL",
    ),
    "e2e": ("CASE WHEN outcome = 'completed' THEN e2e WHEN waiting THEN waited END", "outcome <> 'completed'"),
    "tpot": ("tpot", "false"),
    "queued_for": ("CASE WHEN outcome <> 'rejected' THEN queued_for END", "false"),
}
"""Each latency of a row and whether it was cut off, as `LATENCY_ROWS` has them row by row (a test holds them equal)."""

LATENCIES: Final = tuple(_SEEN)

_TOKENS: Final = """(CASE WHEN output_tokens <= 128 THEN output_tokens
    ELSE round(2 ** ((ceil(log2(output_tokens) * 32) - 0.5) / 32)) END)::INTEGER"""
_STREAMED: Final = "itl_sketches IS NOT NULL AND output_tokens > 0 AND streaming"

Group = tuple[Any, ...]
"""The values of the grouping's keys, and then the latency's name and whether it was cut off."""


def latency_sketches(
    connection: duckdb.DuckDBPyConnection, keys: str, wanted: Collection[str] = LATENCIES
) -> Iterator[tuple[Group, Sketch]]:
    """One sketch for each group, latency, and kind of value (seen, or cut off). `keys` are columns, by commas.

    One scan for all that are `wanted`: each latency's bucket and kind is one number, and each number a grouping of its
    own.
    """
    seen = {name: _SEEN[name] for name in LATENCIES if name in wanted}
    values = ", ".join(f"{value} AS {name}_value, {cut} AS {name}_cut" for name, (value, cut) in seen.items())
    codes = ", ".join(
        f"(CASE WHEN {name}_value > 0 THEN ceil(log2({name}_value) * 32)::INTEGER"
        f" WHEN {name}_value IS NOT NULL THEN {_ZERO} END) * 2 + {name}_cut::INTEGER AS {name}_code"
        for name in seen
    )
    names = [f"{name}_code" for name in seen]
    sets = ", ".join(f"({keys}, {name})" for name in names)
    query = f"""SELECT {keys}, grouping({", ".join(names)}), coalesce({", ".join(names)}), count(*)
        FROM (SELECT {keys}, {codes} FROM (SELECT {keys}, {values} FROM chosen)) GROUP BY GROUPING SETS ({sets})"""
    counts: dict[Group, dict[int, int]] = {}
    place = {(1 << len(names)) - 1 - (1 << len(names) - 1 - index): name for index, name in enumerate(seen)}
    for row in connection.execute(query).fetchall():
        if row[-2] is not None:
            bucket, cut_off = divmod(row[-2], 2)
            counts.setdefault((*row[:-3], place[row[-3]], bool(cut_off)), {})[bucket] = row[-1]
    small = {group for group, buckets in counts.items() if sum(buckets.values()) <= EXACT_UP_TO}
    for group, buckets in counts.items():
        if group not in small:
            sketch = Sketch()
            sketch.add_buckets(buckets.pop(_ZERO, 0), buckets)
            yield group, sketch
    yield from _exact(connection, keys, small)


def _exact(connection: duckdb.DuckDBPyConnection, keys: str, small: set[Group]) -> Iterator[tuple[Group, Sketch]]:
    if not small:
        return
    columns = [key.strip() for key in keys.split(",")]
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE small AS SELECT {keys}, '' AS name, true AS cut_off FROM chosen LIMIT 0"
    )
    places = ", ".join(["unnest(?)"] * (len(columns) + 2))  # whole columns: row by row costs 5 ms each
    connection.execute(f"INSERT INTO small SELECT {places}", [list(column) for column in zip(*small, strict=True)])
    match = " AND ".join(f"v.{column} IS NOT DISTINCT FROM small.{column}" for column in (*columns, "name", "cut_off"))
    grouped = ", ".join(f"v.{column}" for column in (*columns, "name", "cut_off"))
    kinds = sorted({(group[-2], group[-1]) for group in small})
    rows = " UNION ALL ".join(  # what is wanted of each kind of value alone: the others are not even read
        f"SELECT * FROM ({LATENCY_ROWS[name].format(keys=keys)}) WHERE cut_off = {cut_off}" for name, cut_off in kinds
    )
    query = f"SELECT {grouped}, list(greatest(v.value, 0)) FROM ({rows}) v JOIN small ON {match} GROUP BY ALL"
    for *group, values in connection.execute(query).fetchall():
        sketch = Sketch()
        for value in sorted(values):
            sketch.add(value)
        yield tuple(group), sketch


def cut_streams(connection: duckdb.DuckDBPyConnection, keys: str) -> dict[Group, CutStreams]:
    """Of groups in which streams were cut, what that took. Lengths above 128 are their bucket's, within 1.1 %."""
    lengths: dict[Group, dict[tuple[int, bool], int]] = {}
    for *group, length, cut, num in connection.execute(
        f"SELECT {keys}, {_TOKENS}, outcome <> 'completed', count(*) FROM chosen WHERE {_STREAMED} GROUP BY ALL"
    ).fetchall():
        lengths.setdefault(tuple(group), {})[length, cut] = num
    return {group: CutStreams(each) for group, each in lengths.items() if any(cut for _, cut in each)}


def uncut_gaps(
    connection: duckdb.DuckDBPyConnection, keys: str, cut: dict[Group, CutStreams]
) -> Iterator[tuple[Group, Sketch, int]]:
    """(group, gaps as if no stream had been cut, as many as were seen, how many independent ones they are worth)."""
    columns = [key.strip() for key in keys.split(",")]
    rows = connection.execute(f"SELECT DISTINCT {keys}, {_TOKENS} FROM chosen WHERE {_STREAMED}").fetchall()
    weighted = [(*row, *cut[row[:-1]].weights(row[-1])) for row in rows if row[:-1] in cut]
    names = [*columns, "tokens", "near", "middle", "far"]
    table = pa.table({name: [row[place] for row in weighted] for place, name in enumerate(names)})
    connection.register("cut_weights", table)
    match = " AND ".join(f"c.{column} IS NOT DISTINCT FROM w.{column}" for column in columns)
    own = ", ".join(f"c.{column} AS {column}" for column in columns)
    entries = "list_prepend({'key': NULL::INTEGER, 'value': s.num_zero}, map_entries(s.buckets))"
    query = f"""SELECT {keys}, e.key, sum(e.value), sum(e.value * weight), sum(e.value * weight * weight) FROM (
        SELECT {keys}, weight, unnest({entries}) AS e FROM (
            SELECT {own}, unnest(itl_sketches) AS s, unnest([near, middle, far]) AS weight
            FROM (SELECT *, {_TOKENS} AS tokens FROM chosen WHERE {_STREAMED}) c
            JOIN cut_weights w ON c.tokens = w.tokens AND {match})) GROUP BY ALL"""
    found: dict[Group, list[tuple[int | None, float, float, float]]] = {}  # bucket, gaps, Σ weight, Σ weight²
    for *group, bucket, num, once, twice in connection.execute(query).fetchall():
        found.setdefault(tuple(group), []).append((bucket, float(num), float(once), float(twice)))
    for owner, counts in found.items():
        seen, weight = sum(each[1] for each in counts), sum(each[2] for each in counts)
        squared = sum(each[3] for each in counts)
        if weight > 0.0:
            scaled = {bucket: round(once * seen / weight) for bucket, _, once, _ in counts}
            sketch = Sketch()
            zeros = scaled.pop(None, 0)
            sketch.add_buckets(zeros, {index: num for index, num in scaled.items() if index is not None and num})
            yield owner, sketch, int(weight * weight / squared)


def gap_sketches(connection: duckdb.DuckDBPyConnection, keys: str) -> dict[tuple[Any, ...], Sketch]:
    """Token gaps by group and position class (1 to 3), of rows that have any."""
    found: dict[tuple[Any, ...], Sketch] = {}
    if not connection.execute("SELECT 1 FROM chosen WHERE itl_sketches IS NOT NULL LIMIT 1").fetchall():
        return found
    classes = f"""SELECT {keys}, unnest(itl_sketches) AS s, unnest([1, 2, 3]) AS class
        FROM chosen WHERE itl_sketches IS NOT NULL"""
    zeros = f"SELECT {keys}, class, sum(s.num_zero) FROM ({classes}) GROUP BY ALL"
    for *group, num in connection.execute(zeros).fetchall():
        if num:
            found.setdefault(tuple(group), Sketch()).add_buckets(int(num), {})
    buckets: dict[tuple[Any, ...], dict[int, int]] = {}
    entries = f"SELECT {keys}, class, unnest(map_entries(s.buckets)) AS e FROM ({classes})"
    for *group, bucket, num in connection.execute(
        f"SELECT {keys}, class, e.key, sum(e.value) FROM ({entries}) GROUP BY ALL"
    ).fetchall():
        buckets.setdefault(tuple(group), {})[bucket] = int(num)
    for owner, counts in buckets.items():
        found.setdefault(owner, Sketch()).add_buckets(0, counts)
    return found

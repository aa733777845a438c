"""Sketches of a log's latencies by any grouping: DuckDB counts by bucket, only counts come to Python.

Groups of at most 1,024 values bring the values themselves, since their quantiles are exact. All read the view `chosen`.
"""

from collections.abc import Iterator
from typing import Any, Final

import duckdb

from plimsoll.slo.quantiles import EXACT_UP_TO, Sketch
from plimsoll.storage.resemblance import LATENCY_ROWS

_BUCKET: Final = "CASE WHEN value > 0 THEN ceil(log2(value) * 32)::INTEGER END"

Group = tuple[Any, ...]
"""The values of the grouping's keys, and then the latency's name and whether it was cut off."""


def latency_sketches(connection: duckdb.DuckDBPyConnection, keys: str) -> Iterator[tuple[Group, Sketch]]:
    """One sketch for each group, latency, and kind of value (seen, or cut off). `keys` are columns, by commas."""
    counts: dict[Group, dict[int | None, int]] = {}
    rows = LATENCY_ROWS.format(keys=keys)
    query = f"SELECT {keys}, name, cut_off, {_BUCKET} AS bucket, count(*) FROM ({rows}) GROUP BY ALL"
    for row in connection.execute(query).fetchall():
        counts.setdefault(row[:-2], {})[row[-2]] = row[-1]
    small = {group for group, buckets in counts.items() if sum(buckets.values()) <= EXACT_UP_TO}
    for group, buckets in counts.items():
        if group not in small:
            sketch = Sketch()
            zeros = buckets.pop(None, 0)
            sketch.add_buckets(zeros, {index: num for index, num in buckets.items() if index is not None})
            yield group, sketch
    yield from _exact(connection, keys, small)


def _exact(connection: duckdb.DuckDBPyConnection, keys: str, small: set[Group]) -> Iterator[tuple[Group, Sketch]]:
    if not small:
        return
    columns = [key.strip() for key in keys.split(",")]
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE small AS SELECT {keys}, '' AS name, true AS cut_off FROM chosen LIMIT 0"
    )
    places = ", ".join("?" * (len(columns) + 2))
    connection.executemany(f"INSERT INTO small VALUES ({places})", [list(group) for group in small])
    match = " AND ".join(f"v.{column} IS NOT DISTINCT FROM small.{column}" for column in (*columns, "name", "cut_off"))
    grouped = ", ".join(f"v.{column}" for column in (*columns, "name", "cut_off"))
    rows = LATENCY_ROWS.format(keys=keys)
    query = f"SELECT {grouped}, list(greatest(v.value, 0)) FROM ({rows}) v JOIN small ON {match} GROUP BY ALL"
    for *group, values in connection.execute(query).fetchall():
        sketch = Sketch()
        for value in sorted(values):
            sketch.add(value)
        yield tuple(group), sketch


def gap_sketches(connection: duckdb.DuckDBPyConnection, keys: str) -> dict[tuple[Any, ...], Sketch]:
    """Token gaps by group and position class (1 to 3), of rows that have any."""
    classes = f"""SELECT {keys}, unnest(itl_sketches) AS s, unnest([1, 2, 3]) AS class
        FROM chosen WHERE itl_sketches IS NOT NULL"""
    found: dict[tuple[Any, ...], Sketch] = {}
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

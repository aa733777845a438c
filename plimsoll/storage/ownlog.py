"""A request log of our own as a trace: what was asked of a gateway once, to be asked again.

The log says when a request came and how long it turned out to be. Of those that were never answered nobody knows how
long the answer would have been: they get the mean of their tenant's answers (of all, where it has none), so that the
load is not smaller than it was.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from plimsoll.errors import TraceError
from plimsoll.requestlog.record import Record
from plimsoll.storage.tracerow import TraceRow


def read_own(directory: Path) -> Iterator[TraceRow]:
    """The requests of a data directory in order of arrival, the first at 0.0 s.

    Refusals of what could not be read (no prompt known) are left out. Raises UsageError where it is no data directory,
    TraceError where no request is left.
    """
    from plimsoll.storage import query  # noqa: PLC0415 - pyarrow and duckdb, for this kind of trace only

    rows = trace_rows(query.records(directory))
    if not rows:
        raise TraceError(directory.name, 0, "the log holds no request whose prompt is known")
    yield from rows


def trace_rows(records: Iterable[Record]) -> list[TraceRow]:
    """The same of records in any order."""
    known = sorted((_row(record) for record in records if record.prompt_tokens > 0), key=lambda row: row.at)
    means = _mean_outputs(known)
    start = known[0].at if known else 0.0
    replace = msgspec.structs.replace
    return [
        replace(row, at=row.at - start, output_tokens=row.output_tokens or means.get(row.tenant, means[""]))
        for row in known
    ]


def _row(record: Record) -> TraceRow:
    return TraceRow(
        at=record.arrived_at,
        prompt_tokens=record.prompt_tokens,
        output_tokens=record.output_tokens,
        tenant=record.tenant,
        session=record.session,
        cause=record.cause,
        criticality=record.criticality,
        cached_tokens=record.cached_tokens,
        upstream_time=record.upstream_time,
    )


def _mean_outputs(rows: list[TraceRow]) -> dict[str, int]:
    """Mean output of the answered ones by tenant, of all under ""; at least 1 token."""
    sums: dict[str, list[int]] = {"": [0, 0]}
    for row in rows:
        for name in ("", row.tenant):
            total = sums.setdefault(name, [0, 0])
            total[0] += row.output_tokens
            total[1] += row.output_tokens > 0
    return {name: max(1, round(total / num)) for name, (total, num) in sums.items() if num} | (
        {} if sums[""][1] else {"": 1}
    )

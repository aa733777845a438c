"""Between which instants the requests of each Parquet file came and ended: by its footer, which is read once.

Imports pyarrow. Whoever wants the last hour of a month need not look at the month.
"""

from functools import lru_cache
from math import inf
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.storage.logfiles import LogFile


class FileSpan(NamedTuple):
    """UTC epoch s: the first arrival and the last end. Infinite where the footer does not say."""

    first_arrival: float
    last_end: float


def span_of_file(file: LogFile) -> FileSpan:
    """By the file's footer; a file that cannot be read may hold anything, and whoever reads it tells why it cannot."""
    try:
        found = file.path.stat()
        return _span(str(file.path), found.st_size, found.st_mtime_ns)
    except (pa.ArrowInvalid, OSError):
        return FileSpan(-inf, inf)


def ended_since(files: list[LogFile], since: float) -> list[LogFile]:
    """Those that may hold requests that ended at that instant or later."""
    return files if since == -inf else [file for file in files if span_of_file(file).last_end >= since]


@lru_cache(maxsize=10_000)
def _span(path: str, size: int, changed_at: int) -> FileSpan:
    footer = pq.read_metadata(path)
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    arrived, finished = names.index("arrived_at"), names.index("finished_at")
    first, last = inf, -inf
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        starts, ends = group.column(arrived).statistics, group.column(finished).statistics
        if starts is None or ends is None or not (starts.has_min_max and ends.has_min_max):
            return FileSpan(-inf, inf)
        first, last = min(first, starts.min), max(last, ends.max)
    return FileSpan(first, last)

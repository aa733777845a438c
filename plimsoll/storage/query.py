"""Reading the request log: Parquet for what is there, the journal's tail for what is not yet, nothing twice.

Imports pyarrow and duckdb: not for `serve`. All readers work while the gateway writes, without one, and on a copy.
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.errors import StorageError
from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.codec import RowKind
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.requestlog.record import Record
from plimsoll.storage import statelog
from plimsoll.storage.chosen import quoted
from plimsoll.storage.columns import SCHEMA, records_of, table_of
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.logfiles import LogFile, log_files
from plimsoll.storage.logspans import ended_since
from plimsoll.storage.reader import first_offset, read_rows
from plimsoll.storage.rows import decode_settle, states_of
from plimsoll.storage.statelog import slices

BATCH: Final = 8192


def records(directory: Path) -> Iterator[Record]:
    """Every record of a data directory in the log's order, each once, up to those written by now.

    Raises UsageError where it is no data directory, StorageError where what lies there cannot be used.
    """
    paths = _checked(directory)
    files = log_files(paths.requests)
    for file in files:
        try:
            with pq.ParquetFile(file.path) as source:
                for batch in source.iter_batches(BATCH):
                    yield from records_of(pa.Table.from_batches([batch]))
        except (pa.ArrowInvalid, OSError) as error:
            raise _unusable(paths, f"{file.path.name}: {error}") from error
    for settles, _ in _tail(paths, files, []):
        for settle in settles:
            yield settle.record


def connect(directory: Path, since: float = -inf) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB connection with a view `requests` of all records that were written by now.

    `since` (UTC epoch s): files whose requests had all ended before that are left out.
    Its columns are those of `requestlog/record.py`, `entries` and `log_offset`; those of a second view, `states`, are
    those of `requestlog/enginestate.py`, one row a replica and window. The caller closes it.
    """
    paths = _checked(directory)
    files = log_files(paths.requests)
    windows: list[ReplicaWindow] = []
    tail = pa.concat_tables([SCHEMA.empty_table(), *(table_of(*chunk) for chunk in _tail(paths, files, windows))])
    connection = duckdb.connect(":memory:")
    connection.register("journal_tail", tail)
    parts = ["SELECT * FROM journal_tail"]
    wanted = ended_since(files, since)
    if wanted:
        names = ", ".join(quoted(str(file.path)) for file in wanted)
        parts.insert(0, f"SELECT * FROM read_parquet([{names}], union_by_name = true)")
    try:
        connection.execute("CREATE VIEW requests AS " + " UNION ALL BY NAME ".join(parts))
    except duckdb.Error as error:
        connection.close()
        raise _unusable(paths, str(error).partition("\n")[0]) from error
    _add_states(connection, slices(paths.states), windows)
    return connection


def _add_states(connection: duckdb.DuckDBPyConnection, files: list[LogFile], windows: list[ReplicaWindow]) -> None:
    """The view `states`. A range that was written and not yet counted as written is in the tail too: once each."""
    connection.register("states_tail", statelog.table_of(windows))
    parts = ["SELECT * FROM states_tail"]
    if files:
        names = ", ".join(quoted(str(file.path)) for file in files)
        parts.append(f"SELECT * FROM read_parquet([{names}], union_by_name = true)")
    every = " UNION ALL BY NAME ".join(parts)
    try:
        connection.execute(f"CREATE VIEW states AS SELECT DISTINCT * FROM ({every})")
    except duckdb.Error as error:
        connection.close()
        raise StorageError(f"a slice of replicas' states is damaged, remove it: {error}") from error


def _unusable(paths: DataDirectory, why: str) -> StorageError:
    return StorageError(
        f"{paths.requests} has a damaged file ({why}); once it is removed, plimsoll project makes it anew"
    )


def _checked(directory: Path) -> DataDirectory:
    paths = DataDirectory(directory)
    paths.identity()
    return paths


def _tail(
    paths: DataDirectory, files: list[LogFile], windows: list[ReplicaWindow]
) -> Iterator[tuple[list[Settle], list[int]]]:
    """What the journal holds beyond the files, in chunks, with the offsets at which the rows end.

    Replicas' states that it meets are added to `windows`.
    """
    settles: list[Settle] = []
    offsets: list[int] = []
    start = files[-1].end if files else first_offset(paths.journal)
    for row in read_rows(paths.journal, start):
        if row.kind == RowKind.SETTLE:
            settles.append(decode_settle(row.payload))
            offsets.append(row.end)
            if len(settles) == BATCH:
                yield settles, offsets
                settles, offsets = [], []
        elif row.kind == RowKind.NOTE:
            windows += states_of(row.payload)
    if settles:
        yield settles, offsets

"""Writes the request log as Parquet (`logfiles.py` says how files are named). Imports pyarrow: not for `serve`.

A file is written beside its place and renamed into it, so that it is there whole or not at all, and the next begins
where the last one ends: every settlement is in exactly one, whatever dies when.
"""

import os
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.codec import RowKind
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.storage.columns import SCHEMA, table_of
from plimsoll.storage.datadir import DataDirectory, sync_directory
from plimsoll.storage.logfiles import LogFile, all_files, end_of, file_name, log_files
from plimsoll.storage.reader import read_rows, sync_range
from plimsoll.storage.rows import decode_settle, states_of
from plimsoll.storage.statelog import StateLog

MAX_ROWS: Final = 20_000
"""Rows of a file before merging: what is held in memory at once."""
ENOUGH_BYTES: Final = MAX_ROWS * 600
"""Bytes of the log after which a file is written at once."""
ENOUGH_WINDOWS: Final = 5_000
"""Windows of replicas' states after which a file is written though no request ended meanwhile."""
MAX_AGE: Final = 30.0
"""s after which a file is written though it is small; queries read the journal's tail, so nobody waits for it."""
MERGE_AT: Final = 16
"""So many neighbours of like size become one file."""
MERGED_ROWS: Final = 1_000_000
"""A file with more rows is merged no further."""
GRACE: Final = 600.0
"""s for which the sources of a merged file stay, for queries that had already listed them."""


class RequestLog:
    """The Parquet files of one data directory. One writer at a time: the caller holds the projector's lock."""

    def __init__(self, paths: DataDirectory) -> None:
        """Begin where the files end; half a file that a crash left is removed."""
        self._journal = paths.journal
        self._requests = paths.requests
        self._requests.mkdir(exist_ok=True)
        self.states = StateLog(paths.states)
        for part in self._requests.glob("*.part"):
            part.unlink()
        self.offset = end_of(self._requests, self._journal)
        self._waiting_since: float | None = None

    def advance(self, log_end: int, *, force: bool = False) -> bool:
        """Write a file if what lies before `log_end` is enough for one or has waited long enough, or by `force`.

        Returns whether there is more to write at once.
        """
        if log_end <= self.offset:
            return False
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        due = log_end - self.offset >= ENOUGH_BYTES or time.monotonic() - self._waiting_since >= MAX_AGE
        if not (force or due):
            return False
        self._waiting_since = None
        return self._write_next()

    def _write_next(self) -> bool:
        settles: list[Settle] = []
        offsets: list[int] = []
        windows: list[ReplicaWindow] = []
        end = self.offset
        for row in read_rows(self._journal, self.offset):
            if row.kind == RowKind.SETTLE:
                settles.append(decode_settle(row.payload))
                offsets.append(row.end)
            elif row.kind == RowKind.NOTE:
                windows += states_of(row.payload)
            end = row.end
            if len(settles) == MAX_ROWS:
                break
        if settles or len(windows) >= ENOUGH_WINDOWS:
            sync_range(self._journal, self.offset, end)
            self.states.write(self.offset, end, windows)  # first: the file of requests says how far both have come
            self._publish(self.offset, end, [table_of(settles, offsets)])
            self.offset = end
            self._merge()
        return len(settles) == MAX_ROWS

    def _publish(self, start: int, end: int, tables: Iterable[pa.Table]) -> None:
        path = self._requests / file_name(start, end)
        part = path.with_suffix(".part")
        try:
            with part.open("wb") as file:
                _write_tables(file, tables)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            part.unlink()  # most likely the disk is full: half a file is the last thing that it needs
            raise
        part.rename(path)
        sync_directory(self._requests)

    def _merge(self) -> None:
        """Make one file of MERGE_AT neighbours of like size, the smallest first, and remove what nobody reads."""
        files = log_files(self._requests)
        run: list[LogFile] = []
        for file in reversed(files):
            if _num_rows(file) > MERGED_ROWS or (run and _magnitude(file) != _magnitude(run[0])):
                break
            run.append(file)
        if len(run) >= MERGE_AT:
            run.reverse()
            self._publish(run[0].start, run[-1].end, _tables(run))
        self._remove_merged()

    def _remove_merged(self) -> None:
        """Remove files that another has held for long enough."""
        kept = log_files(self._requests)
        now = time.time()
        for file in all_files(self._requests):
            holder = next((each for each in kept if each.start <= file.start and file.end <= each.end), file)
            if holder.path != file.path and now - holder.path.stat().st_mtime > GRACE:
                file.path.unlink()


def _write_tables(file: BinaryIO, tables: Iterable[pa.Table]) -> None:
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def _tables(files: list[LogFile]) -> Iterator[pa.Table]:
    for file in files:
        with pq.ParquetFile(file.path) as source:
            for group in range(source.num_row_groups):
                yield _widened(source.read_row_group(group))


def _widened(table: pa.Table) -> pa.Table:
    """A table of an older schema with the columns that it lacks, empty."""
    columns = [
        table.column(field.name) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _num_rows(file: LogFile) -> int:
    return int(pq.read_metadata(file.path).num_rows)


def _magnitude(file: LogFile) -> int:
    """The power of MERGE_AT that a file's rows reach: files of one magnitude merge into one of the next."""
    rows, magnitude = _num_rows(file), 0
    while rows >= MERGE_AT * 64:
        rows //= MERGE_AT
        magnitude += 1
    return magnitude

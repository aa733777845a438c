"""A request log that was never a journal: rows of others as Parquet files, and a journal that begins behind them."""

import time
from typing import Final

import pyarrow.parquet as pq

from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.record import Record
from plimsoll.storage.columns import SCHEMA, table_of
from plimsoll.storage.datadir import DataDirectory, write_whole
from plimsoll.storage.logfiles import file_name
from plimsoll.storage.segment import new_header, segment_name

GROUP_ROWS: Final = 20_000
"""Rows of a row group: what is held in memory at once."""
FILE_ROWS: Final = 1_000_000


class RowFiles:
    """Writes rows in order. A row's place in the log is its number: the first is 1."""

    def __init__(self, paths: DataDirectory) -> None:
        """Into a directory that was just created."""
        self._paths = paths
        self._rows: list[Record] = []
        self._writer: pq.ParquetWriter | None = None
        self._begin = 0
        self._end = 0

    def add(self, record: Record) -> None:
        """One row."""
        self._rows.append(record)
        if len(self._rows) == GROUP_ROWS:
            self._write()

    def finish(self) -> int:
        """Write what is left, and the journal's first segment; how many rows there are."""
        self._write()
        self._close()
        base = self._end
        write_whole(self._paths.journal / segment_name(base), new_header(0, base, time.time()).to_bytes())
        return base

    def _write(self) -> None:
        if not self._rows:
            return
        if self._writer is None:
            self._begin = self._end
            self._writer = pq.ParquetWriter(self._paths.requests / "writing.part", SCHEMA, compression="zstd")
        numbers = range(self._end + 1, self._end + len(self._rows) + 1)
        self._writer.write_table(table_of([Settle(record, ()) for record in self._rows], numbers))
        self._end += len(self._rows)
        self._rows = []
        if self._end - self._begin >= FILE_ROWS:
            self._close()

    def _close(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        (self._paths.requests / "writing.part").rename(self._paths.requests / file_name(self._begin, self._end))

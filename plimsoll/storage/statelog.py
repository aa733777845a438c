"""States of replicas as Parquet slices: one file a range of the log, named as those of the request log are.

    states/00000000000000000000-00000000000012345678.parquet

A slice is written with the requests' file of the same range. Small slices are merged; one that has become old
(`storage.states_keep`) is removed: nothing else rests on it. Imports pyarrow: not for `serve`.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.requestlog.enginestate import Histogram, ReplicaWindow
from plimsoll.storage.datadir import sync_directory
from plimsoll.storage.logfiles import LogFile, all_files, file_name

MERGE_AT: Final = 32
"""So many slices become one."""
MERGED_ROWS: Final = 200_000
"""A slice with as many rows is merged no further."""
GRACE: Final = 600.0
"""s for which the sources of a merged slice stay, for queries that had already listed them."""

_HISTOGRAM: Final = pa.struct(
    [("total", pa.float64()), ("bounds", pa.list_(pa.float64())), ("counts", pa.list_(pa.int64()))]
)


def _arrow_type(field: msgspec.structs.FieldInfo) -> pa.DataType:
    kinds = {kind for kind in getattr(field.type, "__args__", (field.type,)) if kind is not type(None)}
    if kinds == {str}:
        return pa.dictionary(pa.int32(), pa.string())
    if kinds == {int}:
        return pa.int64()
    return _HISTOGRAM if kinds == {Histogram} else pa.float64()


SCHEMA: Final = pa.schema([(field.name, _arrow_type(field)) for field in msgspec.structs.fields(ReplicaWindow)])


def table_of(windows: Sequence[ReplicaWindow]) -> pa.Table:
    """The windows as a table, in their order."""
    columns = list(zip(*map(msgspec.structs.astuple, windows), strict=True)) or [()] * len(SCHEMA)
    arrays = [
        pa.array([msgspec.to_builtins(_named(value)) for value in values], field.type)
        if field.type == _HISTOGRAM
        else pa.array(values, field.type)
        for field, values in zip(SCHEMA, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _named(value: Histogram | None) -> dict[str, object] | None:
    return None if value is None else msgspec.structs.asdict(value)


def slices(directory: Path) -> list[LogFile]:
    """The files in order, without those that were merged into another."""
    kept: list[LogFile] = []
    for file in sorted(all_files(directory), key=lambda file: (file.start, -file.end)):
        if not kept or file.end > kept[-1].end:
            kept.append(file)
    return kept


class StateLog:
    """The slices of one data directory. One writer at a time: the caller holds the projector's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.keep: float | None = None  # s after which a slice is removed; None: never
        if directory.is_dir():
            for part in directory.glob("*.part"):
                part.unlink()

    def write(self, start: int, end: int, windows: Sequence[ReplicaWindow]) -> None:
        """The slice of a range of the log; none where nothing was reported in it. Writing it again changes nothing."""
        if not windows:
            return
        self._directory.mkdir(exist_ok=True)
        self._publish(start, end, table_of(windows))
        self._merge()
        self._remove(time.time())

    def _publish(self, start: int, end: int, table: pa.Table) -> None:
        path = self._directory / file_name(start, end)
        part = path.with_suffix(".part")
        try:
            with part.open("wb") as file:
                pq.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            part.unlink(missing_ok=True)
            raise
        part.rename(path)
        sync_directory(self._directory)

    def _merge(self) -> None:
        small = [file for file in slices(self._directory) if pq.read_metadata(file.path).num_rows < MERGED_ROWS]
        if len(small) < MERGE_AT:
            return
        tables = [pq.read_table(file.path) for file in small]
        self._publish(small[0].start, small[-1].end, pa.concat_tables(tables, promote_options="default"))

    def _remove(self, now: float) -> None:
        """Remove what is old, and what another slice has held for long enough."""
        kept = {file.path for file in slices(self._directory)}
        for file in all_files(self._directory):
            age = now - file.path.stat().st_mtime
            if (file.path not in kept and age > GRACE) or (self.keep is not None and age > self.keep):
                file.path.unlink()

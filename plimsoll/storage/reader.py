"""Reading the log from any offset, also while its writer goes on writing."""

import gzip
import os
import shutil
import zlib
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final, NamedTuple
from zlib import crc32

from plimsoll.errors import JournalDamaged, StorageError
from plimsoll.requestlog.codec import RowKind
from plimsoll.storage.frames import HEADER, MAGIC, Break, frame_at
from plimsoll.storage.segment import ARCHIVED, HEADER_BYTES, SegmentHeader, all_segments, base_of, read_header

CHUNK: Final = 256 * 1024
"""Bytes read at a time: what is checked here is decoded while it is still in the processor's cache."""
CONTENT: Final = frozenset({int(RowKind.OPEN), int(RowKind.SETTLE), int(RowKind.NOTE)})
_SEAL: Final = int(RowKind.SEAL)


class Row(NamedTuple):
    """One row of the log: where it lies, what it is, and its bytes."""

    start: int
    end: int  # the offset at which to go on
    kind: int
    payload: memoryview


def first_offset(journal: Path) -> int:
    """The earliest offset that is still kept; 0 where there is no segment yet."""
    found = all_segments(journal)
    return base_of(found[0]) if found else 0


def read_rows(journal: Path, start: int) -> Iterator[Row]:
    """Open, settle and note rows from `start` on (0 or the end of an earlier row) up to the last one written by now.

    Raises JournalDamaged where a record fails that is not the last, StorageError where the log does not reach to
    `start` or no longer goes back to it.
    """
    position: int | None = start
    while position is not None:
        path = _segment_of(journal, position)
        if path is None:
            return
        position = yield from _segment_rows(path, position)


def sync_range(journal: Path, start: int, end: int) -> None:
    """Put [start, end) of the log on the device: no projection may survive a power loss that its source does not."""
    paths = all_segments(journal)
    for index, path in enumerate(paths):
        stop = base_of(paths[index + 1]) if index + 1 < len(paths) else end + 1
        if base_of(path) < end and stop > start:
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)


def _segment_of(journal: Path, position: int) -> Path | None:
    """The segment that holds or will hold that offset."""
    paths = all_segments(journal)
    if not paths:
        if position:
            raise StorageError(f"{journal} is empty, but had been read up to offset {position}")
        return None
    if position < base_of(paths[0]):
        raise StorageError(f"{journal} begins at offset {base_of(paths[0])}; {position} is no longer there")
    return next(path for path in reversed(paths) if base_of(path) <= position)


def _opened(path: Path) -> BinaryIO:
    """The segment's bytes as a file; an archived one is unpacked into one without a name."""
    if not path.name.endswith(ARCHIVED):
        with suppress(FileNotFoundError):  # archived since we looked
            return path.open("rb", buffering=0)
        path = path.with_suffix(ARCHIVED)
    file = TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    try:
        with gzip.open(path) as packed:
            shutil.copyfileobj(packed, file, CHUNK)
    except (OSError, EOFError, zlib.error) as error:
        file.close()
        raise JournalDamaged(path.name, 0, f"it cannot be unpacked: {error}") from error
    file.seek(0)
    return file


def _segment_rows(path: Path, start: int) -> Generator[Row, None, int | None]:
    """Rows of one segment; returns the offset of the next segment, None where this one is not complete yet."""
    with _opened(path) as file:
        header = read_header(memoryview(file.read(HEADER_BYTES)), path.name)
        if header is None:
            return None
        base, size = header.base, os.fstat(file.fileno()).st_size
        place = max(start - base, HEADER_BYTES)
        if place > size:
            raise StorageError(f"{path} ends at offset {base + size}, but had been read up to {start}")
        retried = False
        while True:
            loaded = _load(file.fileno(), place, header)
            if isinstance(loaded, Break):
                later = [each for each in map(base_of, all_segments(path.parent)) if each > base]
                if not later:
                    return None
                if later[0] == base + place:
                    return base + place  # we stood behind the seal, and the next segment had yet to appear
                if retried:
                    raise JournalDamaged(path.name, place, "a record fails, and a later segment exists")
                retried = True  # it was written on and sealed since we looked
                continue
            retried = False
            yield from loaded.rows
            place = loaded.end
            if loaded.sealed:
                return base + place


class _Loaded(NamedTuple):
    """The whole records of one chunk: those with content, where the last of all ends in the file, whether it seals."""

    rows: list[Row]
    end: int
    sealed: bool


def _load(fd: int, place: int, header: SegmentHeader) -> _Loaded | Break:
    """The whole records of one chunk from `place` on; a Break where there is not one.

    Runs on every row that any projection reads: `frames.frame_at` says what a record is, here the usual case is inline.
    """
    data = memoryview(os.pread(fd, CHUNK, place))
    first = frame_at(data, 0, header.seeds)
    if first is Break.TORN and len(data) == CHUNK:
        data = memoryview(os.pread(fd, HEADER.unpack_from(data)[2] + HEADER.size, place))
        first = frame_at(data, 0, header.seeds)
    if isinstance(first, Break):
        return first
    rows: list[Row] = []
    append, make, offset = rows.append, tuple.__new__, header.base + place
    seeds, num_kinds, last, unpack, checksum_of = header.seeds, len(header.seeds), len(data), HEADER.unpack_from, crc32
    begin, behind, sealed = 0, HEADER.size, False
    while behind <= last and not sealed:
        magic, kind, length, checksum = unpack(data, begin)
        end = behind + length
        if magic != MAGIC or end > last or kind >= num_kinds:
            break
        payload = data[behind:end]
        if checksum_of(payload, seeds[kind]) != checksum:
            break
        if kind in CONTENT:
            append(make(Row, (offset + begin, offset + end, kind, payload)))  # half the time of Row(…)
        sealed = kind == _SEAL
        begin, behind = end, end + HEADER.size
    return _Loaded(rows, place + begin, sealed)

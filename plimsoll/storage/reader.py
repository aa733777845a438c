"""Reading the log from any offset, also while its writer goes on writing."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from plimsoll.errors import JournalDamaged, StorageError
from plimsoll.requestlog.codec import RowKind
from plimsoll.storage.frames import HEADER, Break, Frame, frame_at
from plimsoll.storage.segment import HEADER_BYTES, SegmentHeader, base_of, read_header, segments

CHUNK: Final = 1024 * 1024
CONTENT: Final = frozenset({RowKind.OPEN, RowKind.SETTLE, RowKind.NOTE})


class Row(NamedTuple):
    """One row of the log: where it lies, what it is, and its bytes."""

    start: int
    end: int  # the offset at which to go on
    kind: int
    payload: memoryview


def first_offset(journal: Path) -> int:
    """The earliest offset that is still kept; 0 where there is no segment yet."""
    found = segments(journal)
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
    paths = segments(journal)
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
    paths = segments(journal)
    if not paths:
        if position:
            raise StorageError(f"{journal} is empty, but had been read up to offset {position}")
        return None
    if position < base_of(paths[0]):
        raise StorageError(f"{journal} begins at offset {base_of(paths[0])}; {position} is no longer there")
    return next(path for path in reversed(paths) if base_of(path) <= position)


def _segment_rows(path: Path, start: int) -> Generator[Row, None, int | None]:
    """Rows of one segment; returns the offset of the next segment, None where this one is not complete yet."""
    with path.open("rb", buffering=0) as file:
        header = read_header(memoryview(file.read(HEADER_BYTES)), path.name)
        if header is None:
            return None
        base, size = header.base, os.fstat(file.fileno()).st_size
        place = max(start - base, HEADER_BYTES)
        if place > size:
            raise StorageError(f"{path} ends at offset {base + size}, but had been read up to {start}")
        retried = False
        while True:
            frame = _load(file.fileno(), place, header)
            if isinstance(frame, Break):
                later = [each for each in map(base_of, segments(path.parent)) if each > base]
                if not later:
                    return None
                if later[0] == base + place:
                    return base + place  # we stood behind the seal, and the next segment had yet to appear
                if retried:
                    raise JournalDamaged(path.name, place, "a record fails, and a later segment exists")
                retried = True  # it was written on and sealed since we looked
                continue
            retried = False
            for found in frame:
                place = found.end
                if found.kind == RowKind.SEAL:
                    return base + place
                if found.kind in CONTENT:
                    yield Row(base + found.start, base + found.end, found.kind, found.payload)


def _load(fd: int, place: int, header: SegmentHeader) -> list[Frame] | Break:
    """The whole records of one chunk from `place` on, with places in the file; a Break where there is not one."""
    data = memoryview(os.pread(fd, CHUNK, place))
    first = frame_at(data, 0, header.seeds)
    if first is Break.TORN and len(data) == CHUNK:
        data = memoryview(os.pread(fd, HEADER.unpack_from(data)[2] + HEADER.size, place))
        first = frame_at(data, 0, header.seeds)
    frames = []
    found = first
    while not isinstance(found, Break):
        frames.append(found._replace(start=place + found.start, end=place + found.end))
        found = frame_at(data, found.end, header.seeds)
    return frames or found

"""Appending records to the newest segment, and going on to the next one when it is full."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final
from zlib import crc32

from plimsoll.errors import DiskFull, StorageError
from plimsoll.requestlog.codec import RowKind
from plimsoll.storage.frames import HEADER, MAGIC, frame_bytes
from plimsoll.storage.keeper import NO_ROOM, Keeper
from plimsoll.storage.recovery import Tail
from plimsoll.storage.segment import HEADER_BYTES, RESERVE, new_header, segment_name, segments

HEADER_SIZE: Final = HEADER.size
_pack: Final = HEADER.pack
SEAL_ROOM: Final = 2 * HEADER.size


class Appender:
    """A buffer in front of one file. Positions are bytes in the segment, offsets bytes in the log."""

    def __init__(
        self,
        journal: Path,
        writer: int,
        segment_bytes: int,
        clock: Callable[[], float],
        checkpoint: Callable[[], bytes],
    ) -> None:
        """`checkpoint` gives the first record of each new segment: all that is open then."""
        self.keeper = Keeper(journal, segment_bytes)
        self.segment_bytes = segment_bytes
        self.position = 0  # after the last appended byte
        self.end = 0  # no record but the seal goes beyond
        self._journal = journal
        self._writer = writer
        self._clock = clock
        self._checkpoint = checkpoint
        self._buffer: list[bytes] = []
        self._put = self._buffer.append
        self._fd = -1
        self._seeds: tuple[int, ...] = ()
        self._base = 0
        self._written = 0  # after the last byte that the kernel has

    @property
    def offset(self) -> int:
        """Where the next record will begin in the log."""
        return self._base + self.position

    @property
    def num_unsynced(self) -> int:
        """Bytes handed to the kernel and not yet known to be on the device."""
        return max(0, self._base + self._written - self.keeper.synced)

    @property
    def left(self) -> int:
        """Bytes that still fit into the segment at hand."""
        return self.end - self.position

    def begin(self, base: int) -> None:
        """Start the first segment of a log, or the one that follows a sealed one. OSError where there is no room."""
        self._find_reserve()
        self._take_segment(base)

    def resume(self, tail: Tail) -> None:
        """Go on in the segment that recovery found, after its last whole record."""
        self._find_reserve()
        self._fd = os.open(tail.path, os.O_RDWR)
        start, stop = tail.torn
        if stop > start:
            os.pwrite(self._fd, bytes(stop - start), start)
        try:
            os.posix_fallocate(self._fd, 0, self.segment_bytes)
            self.end = self.segment_bytes - SEAL_ROOM
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.end = max(tail.end, os.fstat(self._fd).st_size - SEAL_ROOM)
        self._seeds, self._base = tail.header.seeds, tail.header.base
        self.position = self._written = tail.end

    def append(self, kind: int, payload: bytes) -> None:
        """Put a record into the buffer. DiskFull, and nothing changed, where no segment has room for it."""
        size = len(payload)
        after = self.position + HEADER_SIZE + size
        if after > self.end:
            self._next_segment(size + HEADER_SIZE)
            after = self.position + HEADER_SIZE + size
        self._put(_pack(MAGIC, kind, size, crc32(payload, self._seeds[kind])))
        self._put(payload)
        self.position = after

    def flush(self) -> None:
        """Hand the buffer to the kernel: from here on the death of this process loses none of it."""
        if not self._buffer:
            return
        data = b"".join(self._buffer)
        try:
            written = os.pwrite(self._fd, data, self._written)
            while written < len(data):
                written += os.pwrite(self._fd, data[written:], self._written + written)
        except OSError as error:
            if error.errno in NO_ROOM:
                # Preallocated room is room, but for file systems that copy on write; the buffer is kept.
                raise DiskFull(f"{self._journal}: {error.strerror}") from error
            raise StorageError(f"{self._journal}: {error.strerror}") from error
        self._buffer.clear()
        self._written = self.position
        self.keeper.written(self._fd, self._base + self._written)

    def close(self) -> None:
        """Flush, sync, and end the background thread."""
        try:
            self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """End the background thread and let go of the files; what is in the buffer is given up."""
        self.keeper.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _next_segment(self, size: int) -> None:
        if size > self.segment_bytes // 2:
            raise StorageError(f"a record of {size} bytes is too large for segments of {self.segment_bytes}")
        if not self.keeper.ensure_reserve():
            raise DiskFull(f"{self._journal}: the disk is full and the reserve segment is used up")
        seal = frame_bytes(RowKind.SEAL, b"", self._seeds)
        self._buffer.append(seal)
        self.position += len(seal)
        self.flush()
        self.keeper.sealed(self._fd, self.position, self.offset)
        self._take_segment(self.offset)

    def _take_segment(self, base: int) -> None:
        fd = self.keeper.take_reserve(segment_name(base))
        if fd is None:
            raise DiskFull(f"{self._journal}: no room for a segment of {self.segment_bytes} bytes")
        header = new_header(self._writer, base, self._clock())
        self._fd, self._seeds, self._base = fd, header.seeds, base
        self.position, self._written, self.end = HEADER_BYTES, 0, self.segment_bytes - SEAL_ROOM
        first = frame_bytes(RowKind.CHECKPOINT, self._checkpoint(), self._seeds)
        self._buffer.append(header.to_bytes() + first)
        self.position += len(first)
        self.flush()

    def _find_reserve(self) -> None:
        """Take over the reserve that an earlier process left: it is all zeros until it becomes a segment."""
        path = self._journal / RESERVE
        fd = None
        if path.exists():
            fd = os.open(path, os.O_RDWR)
            if os.fstat(fd).st_size != self.segment_bytes:
                os.close(fd)
                path.unlink()
                fd = None
        self.keeper.start(fd)


def remove_after(journal: Path, base: int) -> None:
    """Remove segments beyond the one that begins at `base`: recovery found that nothing in them counts."""
    for path in segments(journal):
        if int(path.stem) > base:
            path.unlink()

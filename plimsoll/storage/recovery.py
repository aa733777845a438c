"""What a journal says after its writer died: where it ends, and what was open then.

Only the last segment is read, since each begins with a checkpoint of all that was open; so a restart takes as long
for a day's log as for a year's. A write that was torn (the process died, or power failed before the fsync that
follows within 200 ms) is at the end or leaves zeros where pages were never written; anything else that fails its
checksum is damage, and nothing is touched.
"""

import mmap
import os
from pathlib import Path
from typing import Final

import msgspec

from plimsoll.errors import JournalDamaged
from plimsoll.requestlog.codec import Note, Open, RowKind, decode_note, decode_open, settled_id
from plimsoll.storage.frames import MAGIC, Break, Frame, frame_at
from plimsoll.storage.rows import POLICY_NOTE, decode_checkpoint, decode_synced
from plimsoll.storage.segment import HEADER_BYTES, SegmentHeader, base_of, read_header, segments

PIECE: Final = 256 * 1024
"""Bytes looked through at a time."""
SECTOR: Final = 512
"""Bytes that a device writes whole."""


class Tail:
    """The end of a journal: the segment to go on with, and the state that its rows add up to."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.path = path
        self.header = header
        self.end = HEADER_BYTES  # in the file: after the last whole record
        self.opens: dict[int, Open] = {}
        self.last_request_id = 0
        self.policy = b""
        self.synced = 0  # highest offset that a row proves to have been on the device
        self.sealed = False
        self.torn = (0, 0)  # bytes of the file to be zeroed: a record that was not written whole

    def apply(self, frame: Frame) -> None:
        """Take one record into the state."""
        kind, payload = frame.kind, frame.payload
        if kind == RowKind.SETTLE:
            request_id = settled_id(payload)
            self.opens.pop(request_id, None)
            self.last_request_id = max(self.last_request_id, request_id)
        elif kind == RowKind.OPEN:
            opened = decode_open(payload)
            self.opens[opened.request_id] = opened
            self.last_request_id = max(self.last_request_id, opened.request_id)
        elif kind == RowKind.SYNCED:
            self.synced = max(self.synced, decode_synced(payload))
        elif kind == RowKind.NOTE:
            self._apply_note(decode_note(payload))
        elif kind == RowKind.CHECKPOINT:
            checkpoint = decode_checkpoint(payload)
            self.opens = {opened.request_id: opened for opened in checkpoint.opens}
            self.last_request_id = checkpoint.last_request_id
            self.policy = checkpoint.policy
        elif kind == RowKind.SEAL:
            self.sealed = True
        self.end = frame.end

    def _apply_note(self, note: Note) -> None:
        if note.kind == POLICY_NOTE:
            self.policy = note.data


def recover(journal: Path) -> Tail | None:
    """The end of the journal in that directory; None where it is empty. Changes nothing.

    Segments after the returned one hold nothing that counts: the caller removes them.
    Raises JournalDamaged for damage that no torn write explains, SchemaTooNew for a later format.
    """
    paths = segments(journal)
    proven = 0
    for index in range(len(paths) - 1, -1, -1):
        tail = scan(paths[index], proven)
        if tail is None:
            continue  # its first write never arrived
        proven = max(proven, tail.synced)
        if index and proven < tail.header.base and not _complete(paths[index - 1], tail.header.base):
            continue  # power failed before the segment before this one was on the device: the log ends there
        return tail
    return None


def _complete(path: Path, next_base: int) -> bool:
    tail = scan(path, 0)
    return tail is not None and tail.sealed and tail.header.base + tail.end == next_base


def scan(path: Path, proven: int) -> Tail | None:
    """All records of one segment; None where not even its header and checkpoint were written.

    `proven`: an offset up to which later segments prove the log to have been on the device.
    """
    data = _mapped(path)
    header = read_header(data, path.name)
    if header is None:
        if proven > base_of(path) or _written_end(data) > HEADER_BYTES:
            raise JournalDamaged(path.name, 0, "its header fails its checksum")
        return None
    tail = Tail(path, header)
    seeds = header.seeds
    position = HEADER_BYTES
    try:
        while not tail.sealed:
            frame = frame_at(data, position, seeds)
            if isinstance(frame, Break):
                _judge_break(tail, data, position, proven)
                break
            tail.apply(frame)
            position = frame.end
    except msgspec.DecodeError as error:
        raise JournalDamaged(path.name, position, f"a whole record that cannot be read: {error}") from error
    return tail if tail.end > HEADER_BYTES else None


def _mapped(path: Path) -> memoryview:
    """The file's bytes, in no memory of ours: a segment is large, and a restart must stay small."""
    with path.open("rb") as file:
        empty = file.seek(0, os.SEEK_END) == 0
        return memoryview(b"") if empty else memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _written_end(data: memoryview) -> int:
    """The place after the last byte that is not zero."""
    end = len(data)
    while end:
        start = max(0, end - PIECE)
        left = len(bytes(data[start:end]).rstrip(b"\x00"))
        if left:
            return start + left
        end = start
    return 0


def _judge_break(tail: Tail, data: memoryview, position: int, proven: int) -> None:
    """Cut a torn write; raise where it is damage."""
    written_end = _written_end(data)
    if written_end <= position:
        return
    name, base = tail.path.name, tail.header.base
    later = next_frame(data, position + 1, tail.header.seeds)
    if later is None:
        if proven > base + position:
            raise JournalDamaged(name, position, "the end of a segment that was on the device is gone")
        tail.torn = (position, written_end)
        return
    synced = _highest_synced(data, later, tail.header.seeds)
    if max(proven, synced) > base + position:
        raise JournalDamaged(name, position, "a record fails its checksum, and later ones show that it was written")
    if not _has_zero_sector(data, position, later.start):
        raise JournalDamaged(name, position, "a record fails its checksum, and whole ones follow")
    tail.torn = (position, written_end)


def next_frame(data: memoryview, start: int, seeds: tuple[int, ...]) -> Frame | None:
    """The first whole record at or after `start`, wherever it begins."""
    haystack = data.obj
    if not isinstance(haystack, mmap.mmap):
        return None
    place = haystack.find(MAGIC, start)
    while place >= 0:
        frame = frame_at(data, place, seeds)
        if not isinstance(frame, Break):
            return frame
        place = haystack.find(MAGIC, place + 1)
    return None


def _highest_synced(data: memoryview, frame: Frame | None, seeds: tuple[int, ...]) -> int:
    highest = 0
    while frame is not None:
        if frame.kind == RowKind.SYNCED:
            highest = max(highest, decode_synced(frame.payload))
        frame = next_frame(data, frame.end, seeds)
    return highest


def _has_zero_sector(data: memoryview, start: int, stop: int) -> bool:
    """Whether a sector between the two places was never written."""
    zeros = bytes(SECTOR)
    first = start + -start % SECTOR
    return any(data[at : at + SECTOR] == zeros for at in range(first, stop - SECTOR + 1, SECTOR))

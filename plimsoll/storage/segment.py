"""A segment: one file of the journal, named by the offset at which it begins.

    journal/00000000000000000000.log     header (64 bytes), checkpoint, records …, seal
    journal/00000000000033554372.log     the next begins where that one ended
    journal/00000000000000000000.log.gz  an old one, archived: the same bytes, gzip (`archive.py`)
    journal/reserve                      preallocated, all zeros: the next segment, or the last on a full disk

Offsets are bytes from the beginning of the log, headers included, and never go back: a position in the log is one
integer for ever.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from plimsoll.errors import JournalDamaged, SchemaTooNew
from plimsoll.storage.frames import seeds_of

FORMAT: Final = 1
MAGIC: Final = b"PLIMSOLL"
LAYOUT: Final = struct.Struct("<8sIIIQd")
HEADER_BYTES: Final = 64
ARCHIVED: Final = ".log.gz"
RESERVE: Final = "reserve"


class SegmentHeader(NamedTuple):
    """The first 64 bytes of a segment."""

    writer: int
    salt: int
    base: int  # offset of the segment's first byte in the log
    created_at: float

    def to_bytes(self) -> bytes:
        """As written: fields, zeros, CRC-32."""
        fields = LAYOUT.pack(MAGIC, FORMAT, self.writer, self.salt, self.base, self.created_at)
        body = fields.ljust(HEADER_BYTES - 4, b"\x00")
        return body + struct.pack("<I", zlib.crc32(body))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Checksum starting values of this segment."""
        return seeds_of(self.salt)


def new_header(writer: int, base: int, created_at: float) -> SegmentHeader:
    """A header with a salt of its own."""
    return SegmentHeader(writer, int.from_bytes(os.urandom(4), "little"), base, created_at)


def read_header(data: memoryview, name: str) -> SegmentHeader | None:
    """The header in `data`; None where it was never written whole.

    Raises SchemaTooNew for a later format, JournalDamaged where the name and the header disagree.
    """
    if len(data) < HEADER_BYTES:
        return None
    body, checksum = bytes(data[: HEADER_BYTES - 4]), struct.unpack_from("<I", data, HEADER_BYTES - 4)[0]
    if zlib.crc32(body) != checksum or not body.startswith(MAGIC):
        return None
    _, version, writer, salt, base, created_at = LAYOUT.unpack_from(body)
    if version > FORMAT:
        raise SchemaTooNew(name, version, FORMAT)
    if segment_name(base) != name.removesuffix(".gz"):
        raise JournalDamaged(name, 0, f"its header says that it begins at {base}")
    return SegmentHeader(writer, salt, base, created_at)


def segment_name(base: int) -> str:
    """File name of the segment that begins at that offset."""
    return f"{base:020d}.log"


def base_of(path: Path) -> int:
    """Offset at which a segment file begins, by its name."""
    return int(path.name.partition(".")[0])


def segments(journal: Path) -> list[Path]:
    """All segment files that are not archived, in order; empty where there is no journal yet."""
    return sorted(path for path in journal.glob("*.log") if path.stem.isdigit())


def all_segments(journal: Path) -> list[Path]:
    """Every segment file in order, archived ones too; of one that is there in both forms the plain one."""
    found = {base_of(path): path for path in journal.glob(f"*{ARCHIVED}") if path.name.partition(".")[0].isdigit()}
    found |= {base_of(path): path for path in segments(journal)}
    return [found[base] for base in sorted(found)]


def preallocate(path: Path, num_bytes: int) -> int:
    """Create a file of that many zero bytes whose room is really taken; its descriptor. OSError where there is none."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.posix_fallocate(fd, 0, num_bytes)
    except OSError:
        os.close(fd)
        path.unlink(missing_ok=True)
        raise
    return fd

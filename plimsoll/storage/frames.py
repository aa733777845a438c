"""One record of the journal on disk: 12 bytes of header, then its payload.

    magic (3) | kind (1) | length of the payload (4) | CRC-32 of kind and payload (4) | payload

Little endian. The checksum starts from a salt that each segment draws for itself, so that bytes which a client put
into its own request can never look like a record of ours.
"""

import struct
import zlib
from enum import Enum
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("<3sBII")
MAGIC: Final = b"\xf1PL"
NO_MAGIC: Final = b"\x00\x00\x00"


class Frame(NamedTuple):
    """A whole record: where it starts and ends in its file, and what it holds."""

    start: int
    end: int
    kind: int
    payload: memoryview


class Break(Enum):
    """Why there is no whole record at a place."""

    END = "end"  # zeros, or the end of the file: nothing was written here yet
    TORN = "torn"  # something is here that is no whole record


def seeds_of(salt: int) -> tuple[int, ...]:
    """The checksum's starting value for each kind, in a segment with that salt."""
    return tuple(zlib.crc32(bytes((kind,)), salt) for kind in range(16))


def frame_at(data: memoryview, start: int, seeds: tuple[int, ...]) -> Frame | Break:
    """The record that starts at `start`."""
    if start + HEADER.size > len(data):
        return Break.TORN if any(data[start:]) else Break.END
    magic, kind, length, checksum = HEADER.unpack_from(data, start)
    if magic != MAGIC:
        # A record is written from its first byte on; zeros there with more behind are looked into by recovery.
        return Break.END if magic == NO_MAGIC and kind == 0 and length == 0 and checksum == 0 else Break.TORN
    end = start + HEADER.size + length
    if end > len(data) or kind >= len(seeds):
        return Break.TORN
    payload = data[start + HEADER.size : end]
    if zlib.crc32(payload, seeds[kind]) != checksum:
        return Break.TORN
    return Frame(start, end, kind, payload)


def frame_bytes(kind: int, payload: bytes, seeds: tuple[int, ...]) -> bytes:
    """The record as it is written."""
    return HEADER.pack(MAGIC, kind, len(payload), zlib.crc32(payload, seeds[kind])) + payload

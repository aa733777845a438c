"""The parts of protobuf's wire format that a page of metrics needs: a library would be longer, and slower."""

import struct
from collections.abc import Callable
from typing import Final

pack_double: Final = struct.Struct("<d").pack
DOUBLE_SIZE: Final = 8  # bytes
MOST_KEPT: Final = 8192  # encoded fields of a kind


class _Varints(dict[int, bytes]):
    """By value; the first are kept: lengths, tags and most counts are found rather than made."""

    def __missing__(self, value: int) -> bytes:
        found, rest = bytearray(), value
        while rest >= 0x80:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        found.append(rest)
        made = bytes(found)
        if len(self) < MOST_KEPT:
            self[value] = made
        return made


varint: Final[Callable[[int], bytes]] = _Varints().__getitem__
"""An integer >= 0, seven bits a byte, the lowest first."""


def zigzag(value: int) -> int:
    """A signed integer as one >= 0, small where it is near 0."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def tag(field: int, wire_type: int) -> bytes:
    """What stands before a value; wire types: 0 varint, 1 eight bytes, 2 with its length before it."""
    return varint(field << 3 | wire_type)


def integer(field: int, value: int) -> bytes:
    """A field of an integer >= 0."""
    return tag(field, 0) + varint(value)


def double(field: int, value: float) -> bytes:
    """A field of a float."""
    return tag(field, 1) + pack_double(value)


def message(field: int, body: bytes) -> bytes:
    """A field of a message that is encoded already."""
    return tag(field, 2) + varint(len(body)) + body


def text(field: int, told: str) -> bytes:
    """A field of a string."""
    return message(field, told.encode())

"""Rows of the log as bytes: msgpack arrays, additive.

A row is an array of its columns in order. A reader that knows more columns than the writer did fills the missing
ones with their defaults; one that knows fewer passes over the rest. So a new column goes to the end and has a
default (a test holds `Record` to that), and no row is ever rewritten.
"""

from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.requestlog.record import Record

NUM_FIRST_COLUMNS: Final = 51
"""Columns of schema 1, which every row has; later ones must have defaults."""


class RowKind(IntEnum):
    """What a row of the log says. Numbers are kept for ever."""

    OPEN = 1  # a request was queued or dispatched
    SETTLE = 2  # a request ended: its record and its ledger entries
    NOTE = 3  # something else that the books need: a policy, a loan, an override, lost rows
    CHECKPOINT = 4  # first in each segment: all that was open when it began
    SYNCED = 5  # the log is on the device up to this offset
    SEAL = 6  # the segment is complete; the next begins at its end


class Open(Struct, frozen=True, array_like=True, gc=False):
    """A request for which we are answerable. What is known then, so that it can be judged if we die (law 1)."""

    request_id: int
    tenant: str
    tier: str
    arrived_at: float
    model: str = ""
    endpoint: str = "chat"
    streaming: bool = True
    num_choices: int = 1
    upstream_time: float | None = None
    cause: str = ""
    session: str = ""


class Note(Struct, frozen=True, array_like=True, gc=False):
    """A journaled decision or fact of another kind; `kind` says how to read `data`."""

    at: float
    kind: str
    data: bytes


class _Head(Struct, frozen=True, array_like=True, gc=False):
    """The first column of a record."""

    request_id: int


class _Heads(Struct, frozen=True, array_like=True, gc=False):
    """The first column of a settle row; what follows is passed over."""

    record: _Head


_encoder: Final = msgspec.msgpack.Encoder()
_open_decoder: Final = msgspec.msgpack.Decoder(Open)
_note_decoder: Final = msgspec.msgpack.Decoder(Note)
_record_decoder: Final = msgspec.msgpack.Decoder(Record)
_heads_decoder: Final = msgspec.msgpack.Decoder(_Heads)

encode: Final = _encoder.encode
"""Any row, or a tuple of rows, to bytes."""


def decode_open(data: bytes | memoryview) -> Open:
    """The open row in `data`; msgspec.DecodeError where it is none."""
    return _open_decoder.decode(data)


def decode_note(data: bytes | memoryview) -> Note:
    """The note in `data`; msgspec.DecodeError where it is none."""
    return _note_decoder.decode(data)


def decode_record(data: bytes | memoryview) -> Record:
    """The record in `data`, of this schema or an older or newer one; msgspec.DecodeError where it is none."""
    return _record_decoder.decode(data)


def settled_id(data: bytes | memoryview) -> int:
    """The request id of a settle row, without decoding the rest: recovery reads tens of thousands of them."""
    return _heads_decoder.decode(data).record.request_id

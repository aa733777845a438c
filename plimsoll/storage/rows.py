"""Rows that tie the log to the ledger: a settlement with its entries, a segment's checkpoint."""

from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.governor.decisions import Settle
from plimsoll.ledger.entry import Entry
from plimsoll.requestlog.codec import Open
from plimsoll.requestlog.record import Record

POLICY_NOTE: Final = "policy"
"""Kind of the note whose data is the policy in force from then on (`storage/policies`)."""
UNLOGGED_NOTE: Final = "unlogged"
"""Kind of the note that says how many refusals found no room in the log: data is msgpack {count, since, until}."""
ENTRIES_NOTE: Final = "entries"
"""Kind of the note with ledger entries of no request (loans, corrections): data is a msgpack array of Entry."""


class Checkpoint(Struct, frozen=True, array_like=True):
    """All that recovery needs to know of earlier segments."""

    last_request_id: int  # highest so far; 0: none
    opens: tuple[Open, ...]
    policy: bytes = b""  # the policy in force (`storage/policies`); b"": none was noted


class _Settled(Struct, frozen=True, array_like=True):
    record: Record
    entries: tuple[Entry, ...]


class Unlogged(Struct, frozen=True):
    """Refusals while the disk was full."""

    count: int
    since: float
    until: float


_settled_decoder: Final = msgspec.msgpack.Decoder(_Settled)
_checkpoint_decoder: Final = msgspec.msgpack.Decoder(Checkpoint)
_entries_decoder: Final = msgspec.msgpack.Decoder(tuple[Entry, ...])
_synced_decoder: Final = msgspec.msgpack.Decoder(int)


def decode_settle(data: bytes | memoryview) -> Settle:
    """The settlement in `data`; msgspec.DecodeError where it is none."""
    settled = _settled_decoder.decode(data)
    return Settle(settled.record, settled.entries)


def decode_checkpoint(data: bytes | memoryview) -> Checkpoint:
    """The checkpoint in `data`; msgspec.DecodeError where it is none."""
    return _checkpoint_decoder.decode(data)


def decode_entries(data: bytes | memoryview) -> tuple[Entry, ...]:
    """The entries of an `entries` note."""
    return _entries_decoder.decode(data)


def decode_synced(data: bytes | memoryview) -> int:
    """The offset that a SYNCED row states."""
    return _synced_decoder.decode(data)

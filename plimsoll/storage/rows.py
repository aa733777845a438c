"""Rows that tie the log to the ledger: a settlement with its entries, a segment's checkpoint."""

from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.governor.decisions import Reassign, Settle
from plimsoll.ledger.decided import Decided
from plimsoll.ledger.entry import Entry
from plimsoll.requestlog.codec import Open, decode_note, encode
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.requestlog.record import Record
from plimsoll.requestlog.turns import turn_of
from plimsoll.slo.runs import Turn
from plimsoll.slo.verdict import Verdict

POLICY_NOTE: Final = "policy"
"""Kind of the note whose data is the policy in force from then on (`storage/policies`)."""
UNLOGGED_NOTE: Final = "unlogged"
"""Kind of the note that says how many refusals found no room in the log: data is msgpack {count, since, until}."""
ENTRIES_NOTE: Final = "entries"
"""Kind of the note with ledger entries of no request: data is a msgpack array of Entry."""
DECISION_NOTE: Final = "decision"
"""Kind of the note with a decision about budgets, booked once under its key: data is a msgpack `Decided`."""
BUDGETS_NOTE: Final = "budgets"
"""Kind of the note with what the governor was told of budgets: data is a msgpack `BudgetsReported`."""


STATES_NOTE: Final = "states"
"""Kind of the note with replicas' states in one window of time: data is a msgpack array of `ReplicaWindow`."""


CAPABILITIES_NOTE: Final = "capabilities"
"""Kind of the note with what the governor was told of replicas' capabilities: data is a `CapabilitiesReported`."""
REASSIGN_NOTE: Final = "reassign"
"""Kind of the note that says that a replica serves another pool: data is a msgpack `Reassign`."""


class Brief(Struct, frozen=True, array_like=True, gc=False):
    """What the books need of a settlement, beside the record in its row: they read ten times faster so."""

    tenant: str
    tier: str
    policy_version: str
    arrived_at: float
    finished_at: float
    verdicts: tuple[Verdict, ...]
    turn: Turn | None = None  # of a request that came with a session


def brief_of(record: Record) -> Brief:
    """The same from the whole record."""
    return Brief(
        record.tenant,
        record.tier,
        record.policy_version,
        record.arrived_at,
        record.finished_at,
        record.verdicts,
        turn_of(record) if record.session else None,
    )


class Checkpoint(Struct, frozen=True, array_like=True):
    """All that recovery needs to know of earlier segments."""

    last_request_id: int  # highest so far; 0: none
    opens: tuple[Open, ...]
    policy: bytes = b""  # the policy in force (`storage/policies`); b"": none was noted


class _Settled(Struct, frozen=True, array_like=True):
    record: Record
    entries: tuple[Entry, ...]


class RawBrief(Struct, frozen=True, array_like=True, gc=False):
    """A `Brief` of a row whose verdicts are still bytes: most rows have the same ones."""

    tenant: str
    tier: str
    policy_version: str
    arrived_at: float
    finished_at: float
    verdicts: msgspec.Raw
    turn: Turn | None = None


class Posted(Struct, frozen=True, array_like=True, gc=False):
    """A settlement's row as the books read it."""

    record: msgspec.Raw
    entries: tuple[Entry, ...]
    brief: RawBrief | None = None  # rows of the first versions have none


class Unlogged(Struct, frozen=True):
    """Refusals while the disk was full."""

    count: int
    since: float
    until: float


_settled_decoder: Final = msgspec.msgpack.Decoder(_Settled)
_posted_decoder: Final = msgspec.msgpack.Decoder(Posted)
_record_decoder: Final = msgspec.msgpack.Decoder(Record)
_reassign_decoder: Final = msgspec.msgpack.Decoder(Reassign)
_decision_decoder: Final = msgspec.msgpack.Decoder(Decided)
_checkpoint_decoder: Final = msgspec.msgpack.Decoder(Checkpoint)
_entries_decoder: Final = msgspec.msgpack.Decoder(tuple[Entry, ...])
_states_decoder: Final = msgspec.msgpack.Decoder(tuple[ReplicaWindow, ...])
_synced_decoder: Final = msgspec.msgpack.Decoder(int)


def decode_settle(data: bytes | memoryview) -> Settle:
    """The settlement in `data`; msgspec.DecodeError where it is none."""
    settled = _settled_decoder.decode(data)
    return Settle(settled.record, settled.entries)


def encode_settle(settle: Settle) -> bytes:
    """A settlement as its row has it: record, entries, brief."""
    return encode((settle.record, settle.entries, brief_of(settle.record)))


decode_posted: Final = _posted_decoder.decode
"""What the books need of a settlement's row; bound once, since it runs on every row."""


def brief_of_posted(posted: Posted) -> Brief:
    """The brief of a row of the first versions, from its record."""
    return brief_of(_record_decoder.decode(posted.record))


def decode_decision(data: bytes | memoryview) -> Decided:
    """The decision of a `decision` note."""
    return _decision_decoder.decode(data)


def decode_reassign(data: bytes | memoryview) -> Reassign:
    """The move of a `reassign` note."""
    return _reassign_decoder.decode(data)


def decode_checkpoint(data: bytes | memoryview) -> Checkpoint:
    """The checkpoint in `data`; msgspec.DecodeError where it is none."""
    return _checkpoint_decoder.decode(data)


def decode_entries(data: bytes | memoryview) -> tuple[Entry, ...]:
    """The entries of an `entries` note."""
    return _entries_decoder.decode(data)


def decode_states(data: bytes | memoryview) -> tuple[ReplicaWindow, ...]:
    """The windows of a `states` note."""
    return _states_decoder.decode(data)


def states_of(payload: bytes | memoryview) -> tuple[ReplicaWindow, ...]:
    """The windows that a note's row has; none of any other note."""
    note = decode_note(payload)
    return decode_states(note.data) if note.kind == STATES_NOTE else ()


def decode_synced(data: bytes | memoryview) -> int:
    """The offset that a SYNCED row states."""
    return _synced_decoder.decode(data)

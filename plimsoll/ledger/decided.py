"""A decision about budgets, as journal and books keep it: a key that counts once, its entries, its evidence."""

from enum import StrEnum

from msgspec import Struct

from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.entry import Entry


class DecisionKind(StrEnum):
    """What was decided."""

    POOL = "pool"  # loans, recalls, returns: data is `PoolEvidence`
    PROVISIONAL = "provisional"  # headroom from midnight on: data is `CloseEvidence`
    CLOSE = "close"  # a month's close: data is `CloseEvidence`
    ACTION = "action"  # a budget changed its state: data is `actions.Action`
    OVERRIDE = "override"  # data is `actions.Override`
    UNDO = "undo"  # data is `Undone`
    CORRECTION = "correction"  # of what was spent, by hand: data is `Corrected`


class Decided(Struct, frozen=True, array_like=True):
    """A decision with its entries. The key makes it count once, however often it is journaled."""

    key: str
    kind: DecisionKind
    entries: tuple[Entry, ...] = ()
    data: bytes = b""  # msgpack: the evidence


class Undone(Struct, frozen=True):
    """An earlier decision holds no longer."""

    key: str
    at: float
    by: str
    why: str = ""
    period: str = ""  # of the loans that were undone
    barred: tuple[Owner, ...] = ()  # who is lent nothing more in that period: its loans were undone


class Corrected(Struct, frozen=True):
    """Somebody found that events were booked wrongly: as bad, or as whose fault."""

    key: str
    tenant: str
    objective: str
    period: str
    num: int
    charged: str  # to whom they were
    to: str  # to whom they should have been; "": they were not bad
    at: float
    by: str
    why: str


class PoolEvidence(Struct, frozen=True):
    """What was known when loans were made or taken back."""

    at: float
    sli: str
    period: str
    members: tuple[tuple[str, str, int, int, int, int | None], ...]  # tenant, objective, bucket, part, spent, ahead
    lent: tuple[tuple[Owner, Owner, int], ...] = ()  # lender, borrower, amount: the loans among the entries


class Exchanged(Struct, frozen=True):
    """What a month's end came to for one tenant."""

    tenant: str
    headroom: int
    demoted: bool
    because: str


class CloseEvidence(Struct, frozen=True):
    """What a month's end posted, for the tenants of one zone."""

    at: float
    zone: str
    period: str
    exchanged: tuple[Exchanged, ...]
    entries: tuple[Entry, ...]

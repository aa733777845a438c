"""Page 6: every decision and action, filtered; which of them can be taken back. Pure but for `read_journal`."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from plimsoll.console.tailing import offset_at
from plimsoll.ledger.decided import DecisionKind
from plimsoll.policy.policy import Policy
from plimsoll.storage.chronicle import KINDS, JournalEntry, Wanted, chronicle

MOST: Final = 300
"""Entries shown: the latest."""
SPANS: Final = {"1h": 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0, "all": float("inf")}
_UNDOABLE: Final = {DecisionKind.OVERRIDE.value, DecisionKind.ACTION.value}


class JournalLine(Struct, frozen=True):
    """One entry. `key` is set where it can be undone; `request` where it is of one."""

    entry: JournalEntry
    key: str
    request: str


class JournalView(Struct, frozen=True):
    """The page: what was asked, and what was found, the latest first."""

    lines: tuple[JournalLine, ...]
    span: str
    tenant: str
    kind: str
    reason: str
    tenants: tuple[str, ...]
    kinds: tuple[str, ...]
    reasons: tuple[str, ...]  # those found
    full: bool  # there may be older ones
    notice: str


def read_journal(root: Path, wanted: Wanted) -> list[JournalEntry]:
    """The latest entries that are wanted, oldest first."""
    return list(deque(chronicle(root, wanted, offset_at(root, wanted.since)), maxlen=MOST))


def journal_view(
    entries: Iterable[JournalEntry], wanted: Wanted, span: str, policy: Policy, notice: str = ""
) -> JournalView:
    """The page from the entries that were found."""
    found = sorted(entries, key=lambda entry: -entry.at)
    keys = [str(entry.detail.get("key", "")) for entry in found]
    undone = {key.removeprefix("undo/") for key in keys if key.startswith("undo/")}
    return JournalView(
        lines=tuple([_line(entry, undone) for entry in found]),
        span=span,
        tenant=wanted.tenant or "",
        kind=wanted.kind or "",
        reason=wanted.reason or "",
        tenants=tuple([tenant.name for tenant in policy.tenants]),
        kinds=KINDS,
        reasons=tuple(sorted({entry.reason for entry in found})),
        full=len(found) >= MOST,
        notice=notice,
    )


def _line(entry: JournalEntry, undone: set[str]) -> JournalLine:
    key = str(entry.detail.get("key", ""))
    can = entry.kind == "decision" and entry.reason in _UNDOABLE and key not in undone and not key.startswith("undo/")
    return JournalLine(
        entry, key if can else "", str(entry.detail.get("request", "")) if entry.kind == "request" else ""
    )

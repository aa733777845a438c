"""What a stretch of the log means for the books: judged events and amounts moved, summed up, nothing posted yet.

The database posts one batch in one transaction; `plimsoll ledger verify` sums the whole log in the same way and
compares.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from plimsoll.governor.decisions import Settle
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.codec import Note, RowKind, decode_note
from plimsoll.storage.periods import period_for
from plimsoll.storage.policies import decode_policy
from plimsoll.storage.reader import Row
from plimsoll.storage.rows import ENTRIES_NOTE, POLICY_NOTE, decode_entries, decode_settle

NOBODY: Final = Policy()


class JudgedKey(NamedTuple):
    """What events are counted by: the target is that of the tier's objective in that version of the policy."""

    tenant: str
    objective: str
    tier: str
    policy: str
    period: str


class Move(NamedTuple):
    """What amounts are summed by."""

    kind: EntryKind
    source: str
    target: str
    period: str
    minute: int  # of the instant at which the request ended, UTC epoch s ÷ 60


class Batch:
    """A stretch of the log, summed."""

    def __init__(self, start: int, policies: dict[str, Policy]) -> None:
        """`policies` are those known by version; the ones that the stretch brings are added to it."""
        self.start = self.end = start
        self.num_settled = 0
        self.good: Counter[JudgedKey] = Counter()
        self.bad: Counter[JudgedKey] = Counter()
        self.moves: Counter[Move] = Counter()
        self.new_policies: dict[str, bytes] = {}
        self._policies = policies

    def take(self, rows: Iterable[Row], max_rows: int, until: int | None = None) -> "Batch":
        """Sum up to that many rows, none that ends beyond offset `until`."""
        for num, row in enumerate(rows, 1):
            if until is not None and row.end > until:
                break
            if row.kind == RowKind.SETTLE:
                self._settled(decode_settle(row.payload))
            elif row.kind == RowKind.NOTE:
                self._noted(decode_note(row.payload))
            self.end = row.end
            if num >= max_rows:
                break
        return self

    def _settled(self, settle: Settle) -> None:
        record = settle.record
        self.num_settled += 1
        policy = self._policies.get(record.policy_version, NOBODY)
        period = period_for(record.arrived_at, record.tenant, policy)
        for verdict in record.verdicts:
            if verdict.num_good or verdict.num_bad:
                key = JudgedKey(record.tenant, verdict.objective, record.tier, record.policy_version, period)
                self.good[key] += verdict.num_good
                self.bad[key] += verdict.num_bad
        self._move(settle.entries, record.finished_at)

    def _noted(self, note: Note) -> None:
        if note.kind == POLICY_NOTE:
            policy = decode_policy(note.data)
            self._policies[policy.version] = policy
            self.new_policies[policy.version] = note.data
        elif note.kind == ENTRIES_NOTE:
            self._move(decode_entries(note.data), note.at)

    def _move(self, entries: Iterable[Entry], at: float) -> None:
        minute = int(at // 60)
        for entry in entries:
            self.moves[Move(entry.kind, entry.source, entry.target, entry.period, minute)] += entry.amount

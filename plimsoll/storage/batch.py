"""What a stretch of the log means for the books: judged events, amounts moved, decisions; summed, nothing posted yet.

The database posts one batch in one transaction; `plimsoll ledger verify` sums the whole log in the same way and
compares. Runs on every request, so requests of one tenant, quarter of arrival and minute of end share a `_Slot`, which
knows their period once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from plimsoll.governor.settlement import spend
from plimsoll.ledger.booking import excepted, is_late, late, window_of
from plimsoll.ledger.decided import Decided
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.sessions import Sessions, entries_of
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.codec import Note, Open, RowKind, decode_note, decode_open
from plimsoll.slo.budget import period_of
from plimsoll.storage.periods import QUARTER, period_for, zone_of
from plimsoll.storage.policies import decode_policy
from plimsoll.storage.reader import Row
from plimsoll.storage.rows import (
    DECISION_NOTE,
    ENTRIES_NOTE,
    POLICY_NOTE,
    Brief,
    RawBrief,
    brief_of_posted,
    decode_decision,
    decode_entries,
    decode_posted,
)
from plimsoll.storage.tallies import Names, Tallied, Tally, tallied, tallied_row, tallies_of

NOBODY: Final = Policy()
_SETTLE: Final = int(RowKind.SETTLE)
_NOTE: Final = int(RowKind.NOTE)


class JudgedKey(NamedTuple):
    """What events are counted by: the target is that of the tier's objective in that version of the policy."""

    tenant: str
    objective: str
    tier: str
    policy: str
    period: str
    exception: str = ""  # kind of the window of exception in which they arrived; these grant nothing


class Minute(NamedTuple):
    """What recent traffic is counted by: the minute in which requests ended."""

    tenant: str
    objective: str
    minute: int  # UTC epoch s ÷ 60


class Move(NamedTuple):
    """What amounts are summed by."""

    kind: EntryKind
    source: str
    target: str
    period: str
    minute: int  # of the instant at which the request ended, UTC epoch s ÷ 60


class _Slot:
    """Requests that are booked alike."""

    __slots__ = ("counts", "exception", "late", "minute", "period", "policy", "tenant", "tier", "zone")

    def __init__(self, brief: Brief | RawBrief, policy: Policy, exception: str) -> None:
        self.tenant, self.tier, self.policy = brief.tenant, brief.tier, brief.policy_version
        self.minute = int(brief.finished_at // 60)
        self.period = period_for(brief.arrived_at, brief.tenant, policy)
        self.zone = zone_of(brief.tenant, policy)
        self.exception = exception
        self.late = is_late(self.period, self.zone, brief.finished_at)
        self.counts: defaultdict[Names, int] = defaultdict(int)


class Batch:
    """A stretch of the log, summed."""

    def __init__(self, start: int, policies: dict[str, Policy], sessions: Sessions | None = None) -> None:
        """`policies` are those known by version; the ones that the stretch brings are added to it. `sessions` are
        agents' runs that go on where the stretch begins; a batch that is not posted has spoilt them."""
        self.start = self.end = start
        self.num_settled = 0
        self.good: Counter[JudgedKey] = Counter()
        self.bad: Counter[JudgedKey] = Counter()
        self.censored: Counter[JudgedKey] = Counter()  # requests
        self.requests: Counter[JudgedKey] = Counter()  # with at least one judged event
        self.minutes: dict[Minute, tuple[int, int]] = {}  # (good, bad) outside windows of exception
        self.moves: Counter[Move] = Counter()
        self.decisions: list[tuple[float, Decided]] = []
        self.new_policies: dict[str, bytes] = {}
        self.sessions = Sessions(policies) if sessions is None else sessions
        self._policies = policies
        self._slots: dict[tuple[str, str, str, float, float, str], _Slot] = {}

    def take(self, rows: Iterable[Row], max_rows: int, until: int | None = None) -> "Batch":
        """Sum up to that many rows, none that ends beyond offset `until`."""
        sessions, count = self.sessions, self._count
        watching = sessions.watching
        end, num_settled = self.end, 0
        for num, (_, behind, kind, payload) in enumerate(rows, 1):
            if until is not None and behind > until:
                break
            if kind == _SETTLE:
                posted = decode_posted(payload)
                brief = posted.brief
                if brief is None:
                    self.settled(brief_of_posted(posted), posted.entries)
                else:
                    num_settled += 1
                    count(brief, tallied_row(bytes(brief.verdicts)), posted.entries)
                    if brief.turn is not None or sessions.due:
                        self._went_on(brief)
            elif kind == _NOTE:
                self._noted(decode_note(payload))
                watching = sessions.watching
            elif watching:
                self._opened(decode_open(payload))
            end = behind
            if num >= max_rows:
                break
        self.end = end
        self.num_settled += num_settled
        self.sum_up()
        return self

    def settled(self, brief: Brief, entries: tuple[Entry, ...]) -> None:
        """Count one settlement; `sum_up` makes it part of the sums."""
        self.num_settled += 1
        self._count(brief, tallied(brief.verdicts), entries)
        if brief.turn is not None or self.sessions.due:
            self._went_on(brief)

    def _went_on(self, brief: Brief | RawBrief) -> None:
        """A request that ended may belong to a run, and the log's time went on."""
        if brief.turn is not None:
            self.passed(brief.arrived_at)
            self.sessions.settled(brief.tenant, brief.policy_version, brief.turn)
        if self.sessions.due:
            self.passed(brief.finished_at)

    def passed(self, at: float) -> None:
        """The log's time goes on to that instant: runs that are over by then are counted like requests."""
        for over in self.sessions.passed(at):
            policy = self._policies.get(over.policy, NOBODY)
            period, zone = period_for(over.arrived_at, over.tenant, policy), zone_of(over.tenant, policy)
            verdicts = () if over.verdict is None else (over.verdict,)
            brief = Brief(over.tenant, over.tier, over.policy, over.arrived_at, over.known_at, verdicts)
            self._count(brief, tallied(verdicts), spend(over.tenant, verdicts, period))
            booked = period_of(over.known_at, zone) if is_late(period, zone, over.known_at) else period
            self._move(entries_of(over, booked), int(over.known_at // 60))

    def _opened(self, opened: Open) -> None:
        self.passed(opened.arrived_at)
        self.sessions.opened(opened.tenant, opened.session, opened.request_id, opened.arrived_at)

    def _count(self, brief: Brief | RawBrief, adds: Tallied, entries: tuple[Entry, ...]) -> None:
        tenant, version, arrived_at, finished_at = (
            brief.tenant,
            brief.policy_version,
            brief.arrived_at,
            brief.finished_at,
        )
        policy = self._policies.get(version, NOBODY)
        windows = policy.budget.exceptions
        exception = window_of(arrived_at, tenant, windows) if windows else ""
        key = (tenant, brief.tier, version, arrived_at // QUARTER, finished_at // 60, exception)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(brief, policy, exception)
        names, counts = adds
        slot.counts[names] += counts
        if entries:
            if slot.late:
                entries = late(entries, finished_at, slot.zone)
            elif exception:
                entries = excepted(entries, exception)
            self._move(entries, slot.minute)

    def sum_up(self) -> None:
        """Bring what was settled since into the sums. What is late stays out: its month is closed."""
        for slot in self._slots.values():
            if slot.late:
                continue
            for names, counts in slot.counts.items():
                for tally in tallies_of(names, counts):
                    self._add(slot, tally)
        self._slots.clear()

    def _add(self, slot: _Slot, tally: Tally) -> None:
        key = JudgedKey(slot.tenant, tally.objective, slot.tier, slot.policy, slot.period, slot.exception)
        self.good[key] += tally.good
        self.bad[key] += tally.bad
        self.censored[key] += tally.censored
        self.requests[key] += tally.requests
        if not slot.exception and tally.requests:
            minute = Minute(slot.tenant, tally.objective, slot.minute)
            good, bad = self.minutes.get(minute, (0, 0))
            self.minutes[minute] = (good + tally.good, bad + tally.bad)

    def _noted(self, note: Note) -> None:
        self.passed(note.at)
        if note.kind == POLICY_NOTE:
            policy = decode_policy(note.data)
            self._policies[policy.version] = policy
            self.sessions.in_force = policy.version
            self.new_policies[policy.version] = note.data
        elif note.kind == ENTRIES_NOTE:
            self._move(decode_entries(note.data), int(note.at // 60))
        elif note.kind == DECISION_NOTE:
            self.decisions.append((note.at, decode_decision(note.data)))

    def _move(self, entries: Iterable[Entry], minute: int) -> None:
        for entry in entries:
            self.moves[Move(entry.kind, entry.source, entry.target, entry.period, minute)] += entry.amount

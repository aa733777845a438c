"""The decision journal for people: what was decided, by whom it was caused, when and why; read from the log itself.

What is there: policies that came into force, decisions about budgets with their evidence, changes of budget states that
the governor was told of, refusals that found no room in the log, and every request that did not simply complete.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.governor import recording
from plimsoll.governor.decisions import MoveStep, Reassign
from plimsoll.governor.events import BudgetsReported, BudgetState, CapabilitiesReported
from plimsoll.ledger.actions import Action, Override
from plimsoll.ledger.decided import CloseEvidence, Corrected, Decided, DecisionKind, PoolEvidence, Undone
from plimsoll.requestlog.codec import Note, RowKind, decode_note
from plimsoll.requestlog.record import Record, format_request_id
from plimsoll.slo.outcome import Outcome
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.policies import decode_policy
from plimsoll.storage.reader import Row, first_offset, read_rows
from plimsoll.storage.rows import (
    BUDGETS_NOTE,
    CAPABILITIES_NOTE,
    DECISION_NOTE,
    POLICY_NOTE,
    REASSIGN_NOTE,
    UNLOGGED_NOTE,
    Unlogged,
    decode_decision,
    decode_reassign,
    decode_settle,
)

KINDS: Final = ("policy", "budget", "decision", "replica", "unlogged", "request")
"""What an entry can be: `request` are those that did not simply complete."""


class JournalEntry(Struct, frozen=True):
    """One thing that was decided or happened. `tenant` is empty where it concerns all; `detail` is its evidence."""

    at: float
    kind: str
    tenant: str
    reason: str
    text: str
    detail: dict[str, Any]


class Wanted(Struct, frozen=True):
    """Which entries: by time (UTC epoch s, half-open), tenant, kind and reason; None is any."""

    since: float = float("-inf")
    until: float = float("inf")
    tenant: str | None = None
    kind: str | None = None
    reason: str | None = None

    def has(self, entry: JournalEntry) -> bool:
        """Whether the entry is wanted. What concerns all tenants concerns each."""
        return (
            self.since <= entry.at < self.until
            and (self.tenant is None or entry.tenant in {"", self.tenant})
            and self.kind in {None, entry.kind}
            and self.reason in {None, entry.reason}
        )


def chronicle(directory: Path, wanted: Wanted, start: int | None = None) -> Iterator[JournalEntry]:
    """Entries in the log's order, from the offset `start` on (a row's beginning or end; None: all that is kept).

    Raises UsageError where the directory is none or a kind is not known.
    """
    if wanted.kind is not None and wanted.kind not in KINDS:
        raise UsageError(f"no kind of entry is named {wanted.kind!r}; known: {', '.join(KINDS)}")
    paths = DataDirectory(directory)
    paths.identity()
    chronicler = Chronicler(wanted)
    for row in read_rows(paths.journal, first_offset(paths.journal) if start is None else start):
        yield from chronicler.take(row)


class Chronicler:
    """Makes entries of rows as they come, in the log's order."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._states: dict[tuple[str, str], BudgetState] = {}

    def take(self, row: Row) -> Iterator[JournalEntry]:
        """Those wanted of one row."""
        if row.kind == RowKind.SETTLE:
            if self._wanted.kind in {None, "request"}:
                yield from self.settled(decode_settle(row.payload).record)
        elif row.kind == RowKind.NOTE:
            for entry in _note(decode_note(row.payload), self._states):
                if self._wanted.has(entry):
                    yield entry

    def settled(self, record: Record) -> Iterator[JournalEntry]:
        """The entry of a request that did not simply complete, where it is wanted."""
        if record.outcome is not Outcome.COMPLETED or record.degraded:
            entry = _request(record)
            if self._wanted.has(entry):
                yield entry


def _request(record: Record) -> JournalEntry:
    text = f"{format_request_id(record.request_id)} {record.outcome.value}: {record.reason.value}"
    if record.degraded:
        text += f", degraded ({record.degraded})"
    broke = [verdict.objective for verdict in record.verdicts if verdict.num_bad]
    detail = {
        "request": format_request_id(record.request_id),
        "outcome": record.outcome.value,
        "phase": record.phase.value,
        "pool": record.pool,
        "replica": record.replica,
        "degraded": record.degraded,
        "broke": broke,
        "charge": record.charge.value if record.charge else None,
    }
    return JournalEntry(record.finished_at, "request", record.tenant, record.reason.value, text, detail)


def _note(note: Note, states: dict[tuple[str, str], BudgetState]) -> Iterator[JournalEntry]:
    if note.kind == POLICY_NOTE:
        version = decode_policy(note.data).version
        yield JournalEntry(note.at, "policy", "", "policy", f"policy {version} came into force", {"version": version})
    elif note.kind == UNLOGGED_NOTE:
        lost = msgspec.msgpack.decode(note.data, type=Unlogged)
        text = f"{lost.count} refusals found no room in the log: the disk was full"
        yield JournalEntry(note.at, "unlogged", "", "storage_full", text, msgspec.to_builtins(lost))
    elif note.kind == DECISION_NOTE:
        yield from _decision(note.at, decode_decision(note.data))
    elif note.kind == BUDGETS_NOTE:
        told = recording.decode(note.data)
        if isinstance(told, BudgetsReported):
            yield from _changes(told, states)
    elif note.kind == CAPABILITIES_NOTE:
        told = recording.decode(note.data)
        if isinstance(told, CapabilitiesReported):
            ratios = {each.replica: each.stall_ratio for each in told.replicas if each.stall_ratio is not None}
            varies = {each.replica: each.variation for each in told.replicas if each.variation is not None}
            paces = {each.pool: msgspec.to_builtins(each) for each in told.pools}
            text = f"of {len(ratios)} replicas it is known how often their streams stall"
            text += f", of {len(paces)} pools how quick they are" if paces else ""
            detail = {"stall_ratios": ratios, "variations": varies, "paces": paces}
            yield JournalEntry(note.at, "replica", "", "capabilities", text, detail)
    elif note.kind == REASSIGN_NOTE:
        yield _reassigned(decode_reassign(note.data))


def _reassigned(move: Reassign) -> JournalEntry:
    steps = {MoveStep.DRAINING: "is to go", MoveStep.MOVED: "goes", MoveStep.KEPT: "did not empty in time to go"}
    text = (
        f"{move.replica} {steps[move.step]} from pool {move.from_pool} ({move.num_from} left, work for "
        f"{move.work_from:.1f}) to {move.to_pool} (has {move.num_to}, work for {move.work_to:.1f}): {move.reason.value}"
    )
    return JournalEntry(move.at, "replica", "", move.reason.value, text, msgspec.to_builtins(move))


def _decision(at: float, decided: Decided) -> Iterator[JournalEntry]:
    """One entry, or one a tenant for a month's close."""
    evidence = _evidence(decided)
    detail = {"key": decided.key, "evidence": msgspec.to_builtins(evidence)}
    moved = sum(entry.amount for entry in decided.entries)
    entries = f", {len(decided.entries)} ledger entries over {moved}" if decided.entries else ""
    if isinstance(evidence, CloseEvidence):
        for each in evidence.exchanged:
            demoted = ", queued one rank lower" if each.demoted else ""
            text = f"{decided.kind.value} of {evidence.period}: headroom {each.headroom}{demoted}: {each.because}"
            yield JournalEntry(at, "decision", each.tenant, decided.kind.value, text, detail)
        return
    tenant = getattr(evidence, "tenant", "")
    text = f"{decided.kind.value} {decided.key}{entries}"
    if isinstance(evidence, Action | Override | Undone | Corrected):
        told = ", ".join(
            f"{name} {value}" for name, value in msgspec.to_builtins(evidence).items() if value not in ("", None)
        )
        text = f"{decided.kind.value}: {told}"
    yield JournalEntry(at, "decision", tenant, decided.kind.value, text, detail)


_EVIDENCE: Final[dict[DecisionKind, type[Struct]]] = {
    DecisionKind.POOL: PoolEvidence,
    DecisionKind.PROVISIONAL: CloseEvidence,
    DecisionKind.CLOSE: CloseEvidence,
    DecisionKind.ACTION: Action,
    DecisionKind.OVERRIDE: Override,
    DecisionKind.UNDO: Undone,
    DecisionKind.CORRECTION: Corrected,
}


def _evidence(decided: Decided) -> Struct | None:
    return msgspec.msgpack.decode(decided.data, type=_EVIDENCE[decided.kind]) if decided.data else None


def _changes(told: BudgetsReported, states: dict[tuple[str, str], BudgetState]) -> Iterator[JournalEntry]:
    """Budget states that differ from those of the report before; the first report is one."""
    for state in told.budgets:
        key = (state.tenant, state.objective)
        before = states.get(key)
        states[key] = state
        if before is None or (before.health, before.degrade, before.exhausted) != (
            state.health,
            state.degrade,
            state.exhausted,
        ):
            was = "" if before is None else f" (was {before.health.words})"
            spent = "no plan" if state.spent_ratio is None else f"{state.spent_ratio:.1%} of the planned grant spent"
            acted = ", its non-critical requests are degraded" if state.degrade else ""
            text = f"budget of {state.objective}: {state.health.words}{was}, {spent}{acted}"
            detail = msgspec.to_builtins(state)
            yield JournalEntry(told.at, "budget", state.tenant, state.health.value, text, detail)

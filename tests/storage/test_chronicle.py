"""The decision journal: every kind of entry, filters, and nothing that simply completed."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from plimsoll.errors import UsageError
from plimsoll.governor import recording
from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import BudgetsReported, BudgetState
from plimsoll.ledger.actions import Action
from plimsoll.ledger.decided import CloseEvidence, Decided, DecisionKind, Exchanged
from plimsoll.requestlog.codec import encode
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.storage.chronicle import JournalEntry, Wanted, chronicle
from plimsoll.storage.journal import Journal
from plimsoll.storage.rows import BUDGETS_NOTE, DECISION_NOTE, UNLOGGED_NOTE, Unlogged
from tests.analytics.records import POLICY, START, record


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("chronicle") / "data"
    journal = Journal.open(root, 1)
    first = journal.next_request_id
    journal.policy(START, POLICY)
    journal.settle(Settle(record(first, 1.0), ()))
    refused = record(
        first + 1, 2.0, tenant="batch", tier="bronze", ttft=None, lasted=0.0, outcome=Outcome.REJECTED,
        reason=Reason.QUEUE_FULL,
    )  # fmt: skip
    journal.settle(Settle(refused, ()))
    journal.settle(Settle(replace(record(first + 2, 3.0), degraded="small_model"), ()))
    for at, health in ((10.0, BudgetHealth.HEALTHY), (70.0, BudgetHealth.HEALTHY), (130.0, BudgetHealth.DEGRADED)):
        state = BudgetState("acme", "ttft", 0.96 if at > 100 else 0.2, health=health, degrade=at > 100)
        journal.note(START + at, BUDGETS_NOTE, recording.encode(BudgetsReported(START + at, (state,))))
    action = Action(START + 130, "acme", "ttft", BudgetHealth.HEALTHY, BudgetHealth.DEGRADED, 96, 100, dry_run=False)
    decided = Decided("action/1", DecisionKind.ACTION, (), msgspec.msgpack.encode(action))
    journal.note(START + 131, DECISION_NOTE, encode(decided))
    exchanged = (Exchanged("acme", 3, False, "budget left"), Exchanged("batch", 0, True, "exhausted"))
    close = CloseEvidence(START + 200, "UTC", "2026-10", exchanged, ())
    closing = Decided("close/1", DecisionKind.CLOSE, (), msgspec.msgpack.encode(close))
    journal.note(START + 200, DECISION_NOTE, encode(closing))
    journal.note(START + 300, UNLOGGED_NOTE, msgspec.msgpack.encode(Unlogged(7, START + 250, START + 260)))
    journal.flush()
    journal.close()
    return root


def told(home: Path, **wanted: object) -> list[JournalEntry]:
    return list(chronicle(home, Wanted(**wanted)))  # type: ignore[arg-type]


def test_everything_that_was_decided_is_told_once_in_order(home: Path) -> None:
    assert [(entry.kind, entry.tenant, entry.reason) for entry in told(home)] == [
        ("policy", "", "policy"),
        ("request", "batch", "queue_full"),
        ("request", "acme", "done"),
        ("budget", "acme", "healthy"),
        ("budget", "acme", "degraded"),
        ("decision", "acme", "action"),
        ("decision", "acme", "close"),
        ("decision", "batch", "close"),
        ("unlogged", "", "storage_full"),
    ]


def test_why_was_acme_degraded(home: Path) -> None:
    (entry,) = told(home, tenant="acme", reason="degraded")
    assert entry.text == (
        "budget of ttft: degraded (was healthy), 96.0% of the planned grant spent, "
        "its non-critical requests are degraded"
    )
    (action,) = told(home, tenant="acme", reason="action")
    assert action.detail["evidence"]["spent"] == 96
    assert "before healthy, after degraded, spent 96, planned 100" in action.text


def test_filters(home: Path) -> None:
    assert {entry.tenant for entry in told(home, tenant="batch")} == {"", "batch"}
    assert [entry.at - START for entry in told(home, kind="budget", since=START + 100)] == [130.0]
    assert told(home, until=START) == []
    assert [entry.detail["degraded"] for entry in told(home, kind="request", tenant="acme")] == ["small_model"]
    with pytest.raises(UsageError, match="no kind of entry is named 'rumour'; known: policy"):
        told(home, kind="rumour")

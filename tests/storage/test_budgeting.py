"""The budget service over real books: states, loans and a month's end through inbox, journal and ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.errors import UsageError
from plimsoll.gateway.bookkeeping import Bookkeeping
from plimsoll.governor import recording
from plimsoll.ledger.actions import Override
from plimsoll.ledger.decided import Decided, DecisionKind
from plimsoll.ledger.entry import EntryKind
from plimsoll.ledger.promise import Promises
from plimsoll.ledger.undoing import Wish, undo
from plimsoll.requestlog.codec import RowKind, decode_note, encode
from plimsoll.slo.budget import BudgetHealth, period_bounds
from plimsoll.slo.verdict import Charge
from plimsoll.storage.audit import audit
from plimsoll.storage.budgeting import MinuteHand
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.knowing import Knowledge
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import BUDGETS_NOTE, DECISION_NOTE
from tests.storage.budgetworld import BEGIN, END, NOON, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_states_reach_the_governor_and_the_journal(world: World) -> None:
    world.requests("acme", 7000, 190)
    minute = world.minute()
    assert minute is not None
    (report,) = world.told
    (state,) = [each for each in report.budgets if each.objective == "ttft"]
    planned = 70 + 20_000 * (END - NOON) / (END - BEGIN) / 100
    assert state.spent_ratio == pytest.approx(190 / int(planned))
    assert (state.health, state.degrade, state.exhausted) == (BudgetHealth.DEGRADED, True, False)
    notes = [decode_note(row.payload) for row in read_rows(world.journal.paths.journal, 0) if row.kind == RowKind.NOTE]
    assert [recording.decode(note.data) for note in notes if note.kind == BUDGETS_NOTE] == [report]
    assert [each.kind for each in world.projections.books.decisions().values()] == [DecisionKind.ACTION]
    world.minute()
    assert len(world.projections.books.decisions()) == 1, "said once"
    assert audit(world.journal.paths, world.projections.books).findings == ()


def test_loans_are_journaled_posted_and_not_made_twice(world: World) -> None:
    world.requests("acme", 1000, 13)
    hours_ago = world.now - 6 * 86_400
    for hour in range(6 * 24):  # enough for beta's forecast, of nothing bad
        world.requests("beta", 10, 0, at=hours_ago + 3600 * hour)
    for _ in range(4):
        world.minute()
    loans = [key for key, each in world.projections.books.decisions().items() if each.kind is DecisionKind.POOL]
    assert loans == ["pool/2026-11/ttft/1"]
    assert world.balance("acme/ttft/borrowed:beta:ttft") > 0
    assert sum(world.projections.books.balances().values()) == 0
    assert audit(world.journal.paths, world.projections.books).findings == ()


def test_loans_are_undone_by_what_is_unspent_of_them(world: World) -> None:
    """What acme was lent beyond what it spent goes back, as a correction; it is lent nothing more, others are."""
    world.requests("acme", 1000, 22)
    hours_ago = world.now - 6 * 86_400
    for hour in range(6 * 24):
        world.requests("beta", 30, 0, at=hours_ago + 3600 * hour)
        world.requests("acme", 10, int(hour % 36 == 0), at=hours_ago + 3600 * hour)  # it will need more tomorrow
    for _ in range(3):
        world.minute()
    borrowed, books = "acme/ttft/borrowed:beta:ttft", world.projections.books
    lent = world.balance(borrowed)
    (row,) = [
        r for r in world.keeper.assess(world.policy, world.now).rows if (r.tenant, r.objective) == ("acme", "ttft")
    ]
    assert 0 < row.from_loans < lent
    (key,) = books.decisions(DecisionKind.POOL)
    promises = Promises(world.policy)

    def undone() -> Decided:
        known = Knowledge(books).known(promises, world.now)
        made = books.decisions(DecisionKind.POOL)[key]
        return undo(Wish(key, world.now, "ops", "by mistake"), made.kind, made.data, promises, known)

    decided = undone()
    (entry,) = decided.entries
    assert (entry.kind, entry.source, entry.amount) == (EntryKind.CORRECT, borrowed, lent - row.from_loans)
    for _ in range(2):  # journaled twice, as after a crash
        world.journal.note(world.now, DECISION_NOTE, encode(decided))
    for _ in range(3):
        world.minute()
    assert world.balance(borrowed) == row.from_loans
    assert list(books.decisions(DecisionKind.POOL)) == [key], "nothing more is lent"
    assert audit(world.journal.paths, books).findings == ()
    with pytest.raises(UsageError, match="spent or was given back"):
        undone()
    before = books.balances()
    books.forget(world.journal.paths.identity().log, 0)
    world.projections._reached = 0
    world.projections.catch_up()
    assert books.balances() == before


def test_a_decision_is_journaled_once_whatever_dies(world: World) -> None:
    """The gateway dies between noting a decision and removing its file; the next one notes it again: booked once."""
    override = Override("override/acme/1", "acme", "", world.now, world.now + 3600, "ops")
    inbox = Inbox(world.journal.paths.root)
    inbox.put(Decided(override.key, DecisionKind.OVERRIDE, (), encode(override)))
    world.bookkeeping.look()
    again = Bookkeeping(inbox, world.journal, lambda: world.now, world.hear)
    again.look()
    again.look()
    assert inbox.decisions() == []
    world.projections.catch_up()
    assert list(world.projections.books.decisions()) == [override.key]
    assert again.num_noted == 1
    world.requests("acme", 7000, 190)
    minute = world.minute()
    assert minute is not None
    assert [row.overridden_by for row in minute.rows if row.tenant == "acme" and row.objective == "ttft"] == [
        override.key
    ]
    assert not any(state.degrade for state in world.told[-1].budgets)
    (inbox.folder / "half.decided").write_bytes(b"\x95\xa3ke")
    world.bookkeeping.look()
    assert (inbox.folder / "half.unreadable").exists()


@pytest.mark.parametrize("away", [0.0, 7200.0, 86_400.0 * 3])
def test_a_months_end_whoever_was_up_at_midnight(world: World, away: float) -> None:
    world.requests("acme", 20_000 // 4, 10)
    world.requests("beta", 20_000 // 4, 120, Charge.UPSTREAM)
    world.now = END - 120
    world.minute()
    (first,) = [each for each in world.told[-1].standings if each.tenant == "beta"]
    assert (first.from_at, first.until_at, first.demoted) == (END, period_bounds("2026-12", "Asia/Shanghai")[1], True)
    world.now = END + away
    for _ in range(3):
        world.minute()
    world.now = max(world.now, END + 86_400)
    for _ in range(3):
        world.minute()
    beta = [each for each in world.told[-1].standings if each.tenant == "beta" and each.from_at == END]
    assert [each.demoted for each in beta] == [True]
    acme = [each for each in world.told[-1].standings if each.tenant == "acme" and each.from_at == END]
    assert [each.headroom for each in acme] == [12]  # ⌊64 × 40 ÷ 200⌋: of 200 committed only 50 were granted
    assert world.balance("acme/@concurrency/headroom", "2026-12") == 12
    for account in ("acme/ttft/bucket", "acme/ttft/part", "beta/ttft/bucket", "beta/ttft/part"):
        assert world.balance(account) == 0, account
    assert world.balance("beta/ttft/overdraft") == -(120 - 50)
    kinds = [each.kind for each in world.projections.books.decisions().values()]
    assert kinds.count(DecisionKind.CLOSE) == 1
    assert kinds.count(DecisionKind.PROVISIONAL) == (1 if away < 86_400 else 0)
    assert audit(world.journal.paths, world.projections.books).findings == ()
    before = world.projections.books.balances()
    world.projections.books.forget(world.journal.paths.identity().log, 0)
    world.projections._reached = world.projections.books.position(world.journal.paths.identity().log)
    world.projections.catch_up()
    assert world.projections.books.balances() == before, "rebuilt from the journal"


def test_a_clock_that_goes_back_stands_still(world: World) -> None:
    world.requests("acme", 100, 1)
    said: list[str] = []
    hand = MinuteHand(world.keeper, lambda: world.now, said.append)
    for step in (0.0, 60.0, -600.0, -600.0, 660.0, 600.0):
        hand.before()
        world.projections.catch_up()
        world.now += step
        hand.after()
    assert said == ["the clock went back: budgets stand still until it shows 2026-11-11T04:01Z again"]

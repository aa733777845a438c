"""The budget service over real books: states, loans and a month's end through inbox, journal and ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.gateway.bookkeeping import Bookkeeping
from plimsoll.governor import recording
from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import BudgetsReported
from plimsoll.ledger.actions import Override
from plimsoll.ledger.decided import Decided, DecisionKind
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy import document
from plimsoll.requestlog.codec import RowKind, decode_note, encode
from plimsoll.slo.budget import BudgetHealth, period_bounds
from plimsoll.slo.verdict import Charge, Judgement, Verdict
from plimsoll.storage.audit import audit
from plimsoll.storage.budgeting import BudgetKeeper, Minute, MinuteHand
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.journal import Journal
from plimsoll.storage.projections import Projections
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import BUDGETS_NOTE
from tests.storage.rows import record

TEXT = """
plimsoll: 1
service: {timezone: Asia/Shanghai}
tiers:
  - {name: gold, rank: 0, share: 50%, objectives: [{sli: ttft, below: 800ms, target: 99%, contract: 90%}]}
  - {name: tin, rank: 1, share: 25%, objectives: [{sli: ttft, below: 2s, target: 99%}]}
tenants:
  - {name: acme, tier: gold, committed: 20k, limits: {concurrency: 64}}
  - {name: beta, tier: gold, committed: 20k, limits: {concurrency: 10}}
"""
BEGIN, END = period_bounds("2026-11", "Asia/Shanghai")
NOON = BEGIN + 10 * 86_400.0 + 43_200


class World:
    """A gateway's journal, the process beside it, and a clock."""

    def __init__(self, home: Path) -> None:
        self.now = NOON
        self.journal = Journal.open(home, clock=lambda: self.now)
        self.policy = document.parse(TEXT)
        self.journal.policy(self.now, self.policy)
        self.journal.paths.policy.write_text(TEXT)
        self.told: list[BudgetsReported] = []
        self.bookkeeping = Bookkeeping(Inbox(home), self.journal, lambda: self.now, self.told.append)
        self.projections = Projections(home)
        self.keeper = BudgetKeeper(self.journal.paths, self.projections.books)

    def requests(self, tenant: str, num: int, bad: int, charge: Charge = Charge.OURS, at: float | None = None) -> None:
        at = self.now - 60 if at is None else at
        for number in range(num):
            is_bad = number < bad
            verdict = Verdict("ttft", Judgement.BAD if is_bad else Judgement.GOOD, 1 - is_bad, int(is_bad), charge)
            row = replace(
                record(self.journal.next_request_id, tenant=tenant, arrived_at=at),
                finished_at=at + 5,
                verdicts=(verdict,),
                policy_version=self.policy.version,
            )
            self.journal.next_request_id += 1
            spend = Entry(EntryKind.SPEND, f"{tenant}/ttft/bucket", f"{tenant}/ttft/spent:{charge}", 1, "2026-11")
            self.journal.settle(Settle(row, (spend,) if is_bad else ()))
        self.journal.flush()

    def minute(self) -> Minute | None:
        """One minute of both processes: decisions are in the books before it ends."""
        decide = self.keeper.may_decide
        self.projections.catch_up()
        made = self.keeper.keep(self.now, decide=decide)
        for _ in range(2):  # taken, then removed
            self.bookkeeping.look()
        self.projections.catch_up()
        self.now += 60
        return made

    def balance(self, account: str, period: str = "2026-11") -> int:
        return self.projections.books.balances().get((account, period), 0)

    def close(self) -> None:
        self.projections.close()
        self.journal.close()


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


def test_a_decision_is_journaled_once_whatever_dies(world: World) -> None:
    """The gateway dies between noting a decision and removing its file; the next one notes it again: booked once."""
    override = Override("override/acme/1", "acme", "", world.now, world.now + 3600, "ops")
    inbox = Inbox(world.journal.paths.root)
    inbox.put(Decided(override.key, DecisionKind.OVERRIDE, (), encode(override)))
    world.bookkeeping.look()
    again = Bookkeeping(inbox, world.journal, lambda: world.now, world.told.append)
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

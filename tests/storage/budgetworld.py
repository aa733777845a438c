"""A gateway's journal, the process beside it and a clock, for tests of the budget service."""

from pathlib import Path

from msgspec.structs import replace

from plimsoll.gateway.bookkeeping import Bookkeeping
from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import BudgetsReported, CapabilitiesReported
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy import document
from plimsoll.slo.budget import period_bounds
from plimsoll.slo.verdict import Charge, Judgement, Verdict
from plimsoll.storage.budgeting import BudgetKeeper
from plimsoll.storage.budgetminute import Minute
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.journal import Journal
from plimsoll.storage.periods import period_for
from plimsoll.storage.projections import Projections
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

    def __init__(self, home: Path, begun: float = NOON, ledger: str | None = None) -> None:
        self.now = begun
        self.home = home
        self.journal = Journal.open(home, clock=lambda: self.now)
        self.policy = document.parse(TEXT)
        self.journal.policy(self.now, self.policy)
        self.journal.paths.policy.write_text(TEXT)
        self.told: list[BudgetsReported] = []
        self.capabilities: list[CapabilitiesReported] = []
        self.bookkeeping = Bookkeeping(Inbox(home), self.journal, lambda: self.now, self.hear)
        self.projections = Projections(home, ledger)
        self.keeper = BudgetKeeper(self.journal.paths, self.projections.books)

    def hear(self, report: BudgetsReported | CapabilitiesReported) -> None:
        if isinstance(report, BudgetsReported):
            self.told.append(report)
        else:
            self.capabilities.append(report)

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
            period = period_for(at, tenant, self.policy)
            spend = Entry(EntryKind.SPEND, f"{tenant}/ttft/bucket", f"{tenant}/ttft/spent:{charge}", 1, period)
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

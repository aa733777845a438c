"""Once a minute: where every budget stands, what is lent, what is done about it. Pure; live and simulated the same.

`Assessor.rows` are what `plimsoll budget status` shows; `Assessor.decisions` what must go into the journal.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.actions import UNKNOWN, Action, Override, health, override_of
from plimsoll.ledger.decided import CloseEvidence, Decided, DecisionKind, PoolEvidence
from plimsoll.ledger.entry import EntryKind
from plimsoll.ledger.figures import Figures, History, Month, plan_of
from plimsoll.ledger.pool import Loan, Member, draws, totals
from plimsoll.ledger.pool import plan as lending
from plimsoll.ledger.promise import Promised, Promises
from plimsoll.policy.budget import BudgetRules
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.burnrate import burn_rate

NOTHING: Final = Figures(Owner("", ""))
NO_HISTORY: Final = History()
NO_TOTALS: Final = totals({})
BURN_WINDOWS: Final = (3600, 6 * 3600, 3 * 86_400)


class Outlook(Struct, frozen=True):
    """A forecast as budgets use it: bad events of the next 24 h and hours until exhaustion, with 80 % bands."""

    state: str = "unknown"
    low: float | None = None
    expected: float | None = None
    upper: float | None = None
    hours_low: float | None = None
    hours: float | None = None
    hours_high: float | None = None

    @property
    def ahead(self) -> int | None:
        """Whole events that it may come to in the next 24 h; None: unknown."""
        return None if self.upper is None else ceil(self.upper)


UNFORESEEN: Final = Outlook()


class Row(Struct, frozen=True):
    """Where one objective of one tenant stands; amounts in its unit. None is unknown."""

    at: float
    tenant: str
    objective: str
    tier: str
    sli: str
    unit: str  # requests | tokens | runs
    period: str
    zone: str
    target: float
    contract: float | None
    num_judged: int
    num_requests: int
    num_censored: int
    granted: int
    bucket: int
    part: int
    planned: int | None
    spent: dict[str, int]  # by charge
    num_spent: int
    remaining: int  # of the grant to date; below zero when overspent
    spent_ratio: float | None  # of the planned grant
    num_excepted: int
    num_late: int
    lent: int
    borrowed: int
    from_part: int  # where spending beyond the bucket was taken from
    from_loans: int
    overdraft: int
    burn: tuple[float | None, float | None, float | None]  # 1 h, 6 h, 3 d
    outlook: Outlook
    health: BudgetHealth
    acted: bool  # False: nothing is done, as a dry run, under an override, or in a state of which nothing follows
    overridden_by: str = ""
    planned_by: str = ""  # `figures.PlannedBy`; "": no plan


class Known(Struct, frozen=True):
    """All that an assessment looks at beside the policy."""

    months: Mapping[str, Month]  # by period; those that are open and the one before
    histories: Mapping[Owner, History] = {}
    outlooks: Mapping[Owner, Outlook] = {}
    before: Mapping[Owner, tuple[str, BudgetHealth]] = {}  # period and state last told
    overrides: tuple[Override, ...] = ()
    num_pool: int = 0  # pool decisions so far this month, of all pools
    provisional: Mapping[tuple[str, str], tuple[CloseEvidence, ...]] = {}  # by (zone, period), oldest first
    closed: Mapping[tuple[str, str], tuple[CloseEvidence, ...]] = {}
    barred: Mapping[str, frozenset[Owner]] = {}  # by period: whose loans were undone


class Assessor:
    """One minute's assessment."""

    def __init__(self, promises: Promises, known: Known, at: float) -> None:
        self.rows: list[Row] = []
        self.decisions: list[Decided] = []
        self._promises = promises
        self._rules: BudgetRules = promises.policy.budget
        self._known = known
        self._at = at
        self._totals = {month.period: totals(month.loans) for month in known.months.values()}

    def assess(self) -> "Assessor":
        """All of it; returns itself."""
        self.rows = self.rows_only()
        for row in self.rows:
            self._act(row)
        self._lend()
        return self

    def rows_only(self) -> list[Row]:
        """Where each budget stands, in the order of their names; decides nothing."""
        promises = self._promises.by_owner
        return [self._row(promises[owner], self._figures(promises[owner])) for owner in sorted(promises)]

    def _figures(self, promised: Promised) -> Figures:
        month = self._known.months.get(self._promises.period(promised.tenant.name, self._at))
        return NOTHING if month is None else month.figures.get(promised.owner, NOTHING)

    def _row(self, promised: Promised, figures: Figures) -> Row:
        owner, objective, tenant = promised.owner, promised.objective, promised.tenant
        period = self._promises.period(tenant.name, self._at)
        history = self._known.histories.get(owner, NO_HISTORY)
        tokens = objective.counts_tokens
        bounds = self._promises.bounds(tenant.name, period)
        plan = plan_of(figures, objective.target, bounds, self._at, promised.committed, history, tokens=tokens)
        planned = None if plan is None else plan.grant
        spent, judged = figures.num_spent, figures.num_judged
        is_judged = figures.is_judged(self._promises.policy.service.censored_limit)
        now = health(self._before(owner, period), judged, spent, planned, self._rules, judged=is_judged)
        override = override_of(self._known.overrides, owner.tenant, owner.objective, self._at)
        all_lent, all_borrowed = self._totals.get(period, NO_TOTALS)
        lent, borrowed = all_lent.get(owner, 0), all_borrowed.get(owner, 0)
        drawn = draws(self._member(promised, figures), lent, borrowed)
        return Row(
            at=self._at,
            tenant=owner.tenant,
            objective=owner.objective,
            tier=promised.tier.name,
            sli=objective.sli.value,
            unit=objective.unit,
            period=period,
            zone=promised.zone,
            target=float(objective.target),
            contract=None if objective.contract is None else float(objective.contract),
            num_judged=judged,
            num_requests=figures.num_requests,
            num_censored=figures.num_censored,
            granted=figures.grant,
            bucket=figures.bucket,
            part=figures.part,
            planned=planned,
            spent=dict(sorted(figures.spent.items())),
            num_spent=spent,
            remaining=figures.grant - spent,
            spent_ratio=spent / planned if planned else None,
            num_excepted=figures.num_excepted,
            num_late=figures.num_late,
            lent=lent,
            borrowed=borrowed,
            from_part=drawn.own,
            from_loans=drawn.borrowed,
            overdraft=drawn.overdraft,
            burn=_burn(history, self._at, objective.target),
            outlook=self._known.outlooks.get(owner, UNFORESEEN),
            health=now,
            acted=now not in UNKNOWN and not self._rules.dry_run and override is None,
            overridden_by="" if override is None else override.key,
            planned_by="" if plan is None else plan.by.value,
        )

    def _before(self, owner: Owner, period: str) -> BudgetHealth:
        """A new month begins anew."""
        told = self._known.before.get(owner)
        return told[1] if told is not None and told[0] == period else BudgetHealth.HEALTHY

    def _act(self, row: Row) -> None:
        """A change of state is a journal row, whatever comes of it."""
        owner = Owner(row.tenant, row.objective)
        before = self._before(owner, row.period)
        if row.health is before or (row.health in UNKNOWN and before in {*UNKNOWN, BudgetHealth.HEALTHY}):
            return
        action = Action(
            self._at, row.tenant, row.objective, before, row.health, row.num_spent, row.planned,
            self._rules.dry_run, row.overridden_by,
        )  # fmt: skip
        key = f"action/{row.tenant}/{row.objective}/{row.period}/{int(self._at // 60)}"
        self.decisions.append(Decided(key, DecisionKind.ACTION, (), msgspec.msgpack.encode(action)))

    def _lend(self) -> None:
        """The pools, one for each SLI; only of months in the service's own zone."""
        pools: dict[str, list[Member]] = {}
        for promised in self._promises.by_owner.values():
            if promised.pooled:
                member = self._member(promised, self._figures(promised))
                pools.setdefault(promised.objective.sli.value, []).append(member)
        period = self._promises.period("", self._at)
        month = self._known.months.get(period)
        for sli, members in sorted(pools.items()):
            owners = {member.owner for member in members}
            lent = {} if month is None else month.loans
            loans = {loan: amount for loan, amount in lent.items() if not owners.isdisjoint(loan)}  # one may have left
            self._lend_in(sli, period, members, loans)

    def _lend_in(self, sli: str, period: str, members: Iterable[Member], loans: Mapping[Loan, int]) -> None:
        members = list(members)
        changes = lending(members, loans, self._rules.borrow_cap, self._known.barred.get(period, frozenset()))
        if not changes or self._rules.dry_run:
            return
        touched = {owner for change in changes for owner in change.loan}
        evidence = PoolEvidence(
            self._at,
            sli,
            period,
            tuple([(*m.owner, m.bucket, m.part, m.spent, m.ahead) for m in members if m.owner in touched]),
            tuple([(*change.loan, change.amount) for change in changes if change.kind is EntryKind.LOAN]),
        )
        key = f"pool/{period}/{sli}/{self._known.num_pool + 1}"
        entries = tuple([change.entry(period) for change in changes])
        self.decisions.append(Decided(key, DecisionKind.POOL, entries, msgspec.msgpack.encode(evidence)))

    def _member(self, promised: Promised, figures: Figures) -> Member:
        return member_of(promised, figures, self._known.outlooks.get(promised.owner, UNFORESEEN).ahead)


def member_of(promised: Promised, figures: Figures, ahead: int | None) -> Member:
    """A tenant's objective as the pool sees it."""
    return Member(
        promised.owner,
        promised.tier.name,
        promised.tier.share,
        promised.tenant.weight,
        figures.bucket,
        figures.part,
        figures.num_spent,
        figures.num_judged,
        promised.objective.contract,
        ahead,
    )


def _burn(history: History, at: float, target: Fraction) -> tuple[float | None, float | None, float | None]:
    (short, short_bad), (middle, middle_bad), (long, long_bad) = (history.window(at, each) for each in BURN_WINDOWS)
    return burn_rate(short_bad, short, target), burn_rate(middle_bad, middle, target), burn_rate(long_bad, long, target)

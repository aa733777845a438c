"""The budget service on the virtual clock: the same assessment and month's ends, over books kept in memory.

budgets = SimulatedBudgets(policy)            # budgets.settled is given each Settle
simulation.run(minute); simulation.tell(budgets.minute(minute))
"""

from collections import defaultdict
from math import inf

import msgspec

from plimsoll.governor.decisions import Settle
from plimsoll.governor.events import BudgetsReported
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.assessment import Known
from plimsoll.ledger.decided import CloseEvidence, Decided, DecisionKind
from plimsoll.ledger.entry import Entry
from plimsoll.ledger.figures import History
from plimsoll.ledger.ledger import Ledger
from plimsoll.ledger.promise import Promises
from plimsoll.policy.policy import Policy
from plimsoll.slo.budget import BudgetHealth
from plimsoll.storage.batch import Batch, JudgedKey
from plimsoll.storage.budgetminute import Minute, assess
from plimsoll.storage.grants import Account, grant_of, target_of
from plimsoll.storage.monthsums import JudgedSums, MonthSums, months_of
from plimsoll.storage.outlooks import Outlooks
from plimsoll.storage.rows import brief_of

Ends = dict[tuple[str, str], tuple[CloseEvidence, ...]]


class SimulatedBudgets:
    """One service's budgets under one policy. Decisions are booked as they are made."""

    def __init__(self, policy: Policy) -> None:
        self.ledger = Ledger()
        self.decisions: list[Decided] = []
        self.last: Minute | None = None
        self._policies = {policy.version: policy}
        self._promises = Promises(policy)
        self._batch = Batch(0, self._policies)
        self._batch.sessions.in_force = policy.version
        self._spent: defaultdict[tuple[str, str], int] = defaultdict(int)  # by account and period
        self._histories: defaultdict[Owner, tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]]] = (
            defaultdict(lambda: ({}, {}))
        )
        self._outlooks = Outlooks(inf)
        self._before: dict[Owner, tuple[str, BudgetHealth]] = {}
        self._num_pool = 0
        self._ends: dict[DecisionKind, Ends] = {DecisionKind.CLOSE: {}, DecisionKind.PROVISIONAL: {}}

    def settled(self, settle: Settle) -> None:
        """A request ended."""
        self._batch.settled(brief_of(settle.record), settle.entries)

    def minute(self, at: float) -> BudgetsReported:
        """Assess, book what is decided, and say what the governor is to know."""
        self._batch.passed(at)
        self._batch.sessions.changes.clear()  # nobody keeps them here
        self._sum_up()
        made = self.last = assess(self._promises, self._known(), at, self._outlooks)
        self._before = {Owner(row.tenant, row.objective): (row.period, row.health) for row in made.rows}
        for decided in made.decisions:
            self._book(decided)
        return made.report

    def _sum_up(self) -> None:
        batch = self._batch
        batch.sum_up()
        for move, amount in batch.moves.items():
            self._move(Entry(move.kind, move.source, move.target, amount, move.period))
        batch.moves.clear()
        for key, (good, bad) in batch.minutes.items():
            hours, minutes = self._histories[Owner(key.tenant, key.objective)]
            for counts, when in ((hours, key.minute // 60), (minutes, key.minute)):
                judged, before = counts.get(when, (0, 0))
                counts[when] = (judged + good + bad, before + bad)
        batch.minutes.clear()

    def _known(self) -> Known:
        batch = self._batch
        counts: defaultdict[Account, list[tuple[JudgedKey, int]]] = defaultdict(list)
        judged = JudgedSums()
        for key in batch.good:
            if not key.exception:
                num = batch.good[key] + batch.bad[key]
                counts[Account(key.tenant, key.objective, key.period)].append((key, num))
                policy = self._policies.get(key.policy)
                target = None if policy is None else target_of(policy, key)
                owner = Owner(key.tenant, key.objective)
                judged.add(owner, key.period, target, num, batch.requests[key], batch.censored[key])
        grants = {account: grant_of(of, self._policies) for account, of in counts.items()}
        periods = {account.period for account in grants}
        sums = MonthSums(periods)
        for (name, period), amount in self._spent.items():
            if period in periods:
                sums.add(name, period, amount)
        for evidences in self._ends[DecisionKind.CLOSE].values():
            for entry in [
                each for evidence in evidences for each in evidence.entries if each.period == evidence.period
            ]:
                sums.give_back(entry)
        amounts = {
            (Owner(account.tenant, account.objective), account.period): (grant.bucket, grant.pool_part)
            for account, grant in grants.items()
        }
        return Known(
            months=months_of(periods, judged.all(), amounts, sums),
            histories={owner: History(hours, minutes) for owner, (hours, minutes) in self._histories.items()},
            before=self._before,
            num_pool=self._num_pool,
            provisional=self._ends[DecisionKind.PROVISIONAL],
            closed=self._ends[DecisionKind.CLOSE],
        )

    def _book(self, decided: Decided) -> None:
        self.decisions.append(decided)
        for number, entry in enumerate(decided.entries):
            self.ledger.post(f"{decided.key}#{number}", entry)
            self._move(entry)
        if decided.kind is DecisionKind.POOL:
            self._num_pool += 1
        elif decided.kind in self._ends:
            evidence = msgspec.msgpack.decode(decided.data, type=CloseEvidence)
            ends, key = self._ends[decided.kind], (evidence.zone, evidence.period)
            ends[key] = (*ends.get(key, ()), evidence)

    def _move(self, entry: Entry) -> None:
        self._spent[entry.source, entry.period] -= entry.amount
        self._spent[entry.target, entry.period] += entry.amount

"""A month's books from balances and counts, wherever those are kept: in a database or in a simulation's memory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction

from plimsoll.ledger.accounts import CONCURRENCY, HEADROOM, WORLD, Account, Owner, account_of
from plimsoll.ledger.entry import Entry
from plimsoll.ledger.figures import Figures, Month
from plimsoll.ledger.pool import Loan
from plimsoll.slo.budget import Judged

Key = tuple[Owner, str]
"""Whose, and of which period."""
Spans = Mapping[Key, tuple[tuple[Judged, ...], int, int]]
"""Judged by target; requests; censored requests."""


class JudgedSums:
    """Judged events by target."""

    def __init__(self) -> None:
        self._spans: defaultdict[Key, defaultdict[Fraction, int]] = defaultdict(lambda: defaultdict(int))
        self._others: defaultdict[Key, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def add(  # noqa: PLR0917 - the columns of one row
        self, owner: Owner, period: str, target: Fraction | None, num: int, requests: int, censored: int
    ) -> None:
        """Events of one target; None where it is not known (yet)."""
        if target is not None:
            self._spans[owner, period][target] += num
        before = self._others[owner, period]
        self._others[owner, period] = (before[0] + requests, before[1] + censored)

    def all(self) -> dict[Key, tuple[tuple[Judged, ...], int, int]]:
        """By owner and period."""
        return {
            key: (tuple([Judged(num, target) for target, num in sorted(self._spans[key].items())]), *of)
            for key, of in self._others.items()
        }


class MonthSums:
    """Balances by what they say."""

    def __init__(self, periods: set[str]) -> None:
        self._periods = periods
        self.spent: defaultdict[tuple[Owner, str], dict[str, int]] = defaultdict(dict)
        self.excepted: defaultdict[tuple[Owner, str], int] = defaultdict(int)
        self.late: defaultdict[tuple[Owner, str], int] = defaultdict(int)
        self.loans: defaultdict[str, dict[Loan, int]] = defaultdict(dict)
        self.headroom: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def add(self, name: str, period: str, amount: int) -> None:
        """One account's balance."""
        account = account_of(name)
        owner = account.owner
        if owner.tenant == WORLD:
            return
        if account.charge is not None:
            self.spent[owner, period][account.charge] = amount
        elif account.name.startswith("excepted:"):
            self.excepted[owner, period] += amount
        elif account.name.startswith("late:"):
            self.late[owner, period] += amount
        else:
            self._hold(account, period, amount)

    def give_back(self, entry: Entry) -> None:
        """A close's entry, undone where it moved a loan or headroom of its own month."""
        if entry.period in self._periods:
            for name, amount in ((entry.source, entry.amount), (entry.target, -entry.amount)):
                account = account_of(name)
                if account.owner.tenant != WORLD:
                    self._hold(account, entry.period, amount)

    def _hold(self, account: Account, period: str, amount: int) -> None:
        owner, lender = account.owner, account.lender
        if lender is not None:
            loan = Loan(lender, owner)
            self.loans[period][loan] = self.loans[period].get(loan, 0) + amount
        elif owner.objective == CONCURRENCY and account.name == HEADROOM:
            self.headroom[period][owner.tenant] = self.headroom[period].get(owner.tenant, 0) + amount


def months_of(
    periods: Iterable[str], counts: Spans, amounts: Mapping[Key, tuple[int, int]], sums: MonthSums
) -> dict[str, Month]:
    """The books by period; `amounts` is what was granted: (bucket, part)."""
    months: dict[str, Month] = {}
    for period in sorted(periods):
        owners = {owner for owner, of in {*counts, *amounts, *sums.spent} if of == period}
        figures = {}
        for owner in sorted(owners):
            spans, requests, censored = counts.get((owner, period), ((), 0, 0))
            bucket, part = amounts.get((owner, period), (0, 0))
            spent, excepted, late = sums.spent.get((owner, period), {}), sums.excepted, sums.late
            key = (owner, period)
            figures[owner] = Figures(
                owner, spans, requests, censored, bucket, part, spent, excepted.get(key, 0), late.get(key, 0)
            )
        months[period] = Month(period, figures, sums.loans.get(period, {}), sums.headroom.get(period, {}))
    return months

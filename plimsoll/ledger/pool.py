"""The shared pool of one SLI: who draws on what, who lends, who borrows, who gets back. Pure, in whole events.

A tenant draws first on its bucket, then on its own part of the pool, then on loans; what is beyond goes to overdraft.
Draws follow from totals alone, so the order of spends and grants within a minute never matters.

    free = own part − max(0, forecast upper spend − bucket) − already lent, floored at 0

The forecast upper spend is what was spent and the upper bound of the next 24 h; where it is unknown nothing is lent.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import floor
from typing import NamedTuple

from msgspec import Struct

from plimsoll.ledger.accounts import PART, Owner
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.slo.budget import borrowable


class Member(Struct, frozen=True):
    """One tenant's objective with its figures of the month to date."""

    owner: Owner
    tier: str
    share: Fraction  # its tier's; what simultaneous borrowers share by
    weight: Fraction  # the tenant's within its tier
    bucket: int  # granted to date
    part: int
    spent: int
    num_judged: int
    contract: Fraction | None
    ahead: int | None  # upper bound of what it will spend in the next 24 h; None: unknown


class Loan(NamedTuple):
    """What one owes another."""

    lender: Owner
    borrower: Owner


Loans = Mapping[Loan, int]
"""All that is lent and neither recalled nor returned, spent or not."""


class Draws(NamedTuple):
    """Where a member's spending comes from; the sum is what it spent."""

    bucket: int
    own: int
    borrowed: int
    overdraft: int


class Change(NamedTuple):
    """A loan, or one taken back."""

    kind: EntryKind  # LOAN, RECALL (the lender needs it), RETURN (the borrower does not), CORRECT (undone)
    loan: Loan
    amount: int

    def entry(self, period: str) -> Entry:
        """As the books have it."""
        lender, borrower = self.loan
        part, held = lender.account(PART), borrower.borrowed_from(lender)
        if self.kind is EntryKind.LOAN:
            return Entry(self.kind, part, held, self.amount, period)
        return Entry(self.kind, held, part, self.amount, period)


def draws(member: Member, lent: int, borrowed: int) -> Draws:
    """What its spending is covered by, given what it lent and borrowed."""
    from_bucket = min(member.spent, member.bucket)
    rest = member.spent - from_bucket
    own = min(rest, max(0, member.part - lent))
    on_loan = min(rest - own, borrowed)
    return Draws(from_bucket, own, on_loan, rest - own - on_loan)


def totals(loans: Loans) -> tuple[dict[Owner, int], dict[Owner, int]]:
    """What each has lent, and what each has borrowed."""
    lent: dict[Owner, int] = {}
    borrowed: dict[Owner, int] = {}
    for (lender, borrower), amount in loans.items():
        lent[lender] = lent.get(lender, 0) + amount
        borrowed[borrower] = borrowed.get(borrower, 0) + amount
    return lent, borrowed


def free(member: Member, lent: int) -> int:
    """What it can lend besides."""
    if member.ahead is None:
        return 0
    return max(0, member.part - max(0, member.spent + member.ahead - member.bucket) - lent)


def plan(
    members: Iterable[Member], loans: Loans, borrow_cap: Fraction, barred: frozenset[Owner] = frozenset()
) -> list[Change]:
    """What is lent and given back now, in the order in which it is posted; the same whatever the order of `members`.

    Only unspent loans go back. A loan never exceeds `borrow_cap` × the borrower's own grant, nor what its contract
    still allows: ⌊judged × (1 − contract)⌋ − spent. Those who are `barred` are lent nothing more.
    """
    pool = _Pool(members, loans)
    return [*pool.recalls(), *pool.returns(), *pool.new_loans(borrow_cap, barred)]


def taken_back(members: Iterable[Member], loans: Loans, wanted: Loans) -> list[Change]:
    """Corrections that give so much of each loan back to its lender, as far as it is owed still and unspent."""
    return _Pool(members, loans).corrections(wanted)


def share_out(total: int, limits: Mapping[Owner, int], weights: Mapping[Owner, Fraction]) -> dict[Owner, int]:
    """Divide whole events by weight, nobody above its limit, what one leaves goes to the others; sums up exactly.

    Those of weight 0 share equally what the others leave.
    """
    given = dict.fromkeys(limits, 0)
    for weighty in (True, False):
        open_ = sorted(owner for owner in limits if (weights[owner] > 0) is weighty)
        while open_ and total > 0:
            weight_of = {owner: weights[owner] if weighty else Fraction(1) for owner in open_}
            whole = sum(weight_of.values(), Fraction(0))
            quota = {owner: total * weight_of[owner] / whole for owner in open_}
            full = [owner for owner in open_ if limits[owner] <= quota[owner]]
            if not full:
                for owner, amount in _largest_remainder(total, quota).items():
                    given[owner] = amount
                return given
            for owner in full:
                given[owner] = limits[owner]
                total -= limits[owner]
            open_ = [owner for owner in open_ if owner not in full]
    return given


def _largest_remainder(total: int, quota: Mapping[Owner, Fraction]) -> dict[Owner, int]:
    """Whole parts that sum to `total`, each within one of its quota; none above its quota rounded up."""
    parts = {owner: floor(amount) for owner, amount in quota.items()}
    by_rest = sorted(quota, key=lambda owner: (floor(quota[owner]) - quota[owner], owner))
    for owner in by_rest[: total - sum(parts.values())]:
        parts[owner] += 1
    return parts


class _Pool:
    """The pool while a minute's changes are made; totals are kept beside the loans, so that none is summed twice."""

    def __init__(self, members: Iterable[Member], loans: Loans) -> None:
        self._members = {member.owner: member for member in sorted(members, key=lambda member: member.owner)}
        self._loans = {loan: amount for loan, amount in sorted(loans.items()) if amount}
        self._lent, self._borrowed = totals(self._loans)

    def recalls(self) -> list[Change]:
        """Lenders take back what they need themselves, as far as it is unspent."""
        changes = []
        for loan in list(self._loans):
            lender = self._members.get(loan.lender)
            if lender is None:
                continue
            need = max(0, lender.spent + (lender.ahead or 0) - lender.bucket)
            short = need - (lender.part - self._lent.get(loan.lender, 0))
            changes += self._take_back(EntryKind.RECALL, loan, short)
        return changes

    def returns(self) -> list[Change]:
        """Borrowers give back what they neither spent nor are likely to need."""
        changes = []
        for loan in list(self._loans):
            borrower = self._members.get(loan.borrower)
            if borrower is not None:
                ahead = max(0, self._uncovered(borrower) + (borrower.ahead or 0))
                changes += self._take_back(EntryKind.RETURN, loan, self._borrowed[loan.borrower] - ahead)
        return changes

    def corrections(self, wanted: Loans) -> list[Change]:
        """Loans that should not have been made."""
        changes = []
        for loan, amount in sorted(wanted.items()):
            if loan in self._loans:
                changes += self._take_back(EntryKind.CORRECT, loan, amount)
        return changes

    def new_loans(self, borrow_cap: Fraction, barred: frozenset[Owner]) -> list[Change]:
        """Who has used up its own borrows, all at once, from those who have most to spare."""
        limits = {
            owner: limit
            for owner, member in self._members.items()
            if owner not in barred and (limit := self._limit(member, borrow_cap))
        }
        spare = {
            owner: amount
            for owner, member in self._members.items()
            if owner not in limits and (amount := free(member, self._lent.get(owner, 0)))
        }
        given = share_out(sum(spare.values()), limits, self._weights(limits))
        changes = []
        for borrower in sorted(given):
            for lender in sorted(spare, key=lambda owner: (-spare[owner], owner)):
                amount = min(given[borrower], spare[lender])
                if amount:
                    given[borrower] -= amount
                    spare[lender] -= amount
                    changes.append(self._move(EntryKind.LOAN, Loan(lender, borrower), amount))
        return changes

    def _uncovered(self, member: Member) -> int:
        """Spent beyond bucket and own part; below zero where something of its own is left."""
        return member.spent - member.bucket - max(0, member.part - self._lent.get(member.owner, 0))

    def _unspent(self, borrower: Owner) -> int:
        borrowed = self._borrowed.get(borrower, 0)
        member = self._members.get(borrower)
        if member is None:  # it left the pool: nothing of it is spent any more than the close will find
            return borrowed
        return borrowed - draws(member, self._lent.get(borrower, 0), borrowed).borrowed

    def _limit(self, member: Member, borrow_cap: Fraction) -> int:
        uncovered = self._uncovered(member)
        if uncovered < 0:
            return 0
        borrowed = self._borrowed.get(member.owner, 0)
        want = uncovered + (member.ahead or 0) - borrowed
        cap = floor(borrow_cap * (member.bucket + member.part)) - borrowed
        bound = borrowable(member.num_judged, member.contract, member.spent) - self._unspent(member.owner)
        return max(0, min(want, cap, bound))

    def _weights(self, borrowers: Iterable[Owner]) -> dict[Owner, Fraction]:
        """Tiers share by their share, a tier's borrowers by their weight."""
        asking = [self._members[owner] for owner in borrowers]
        of_tier: dict[str, Fraction] = {}
        for member in asking:
            of_tier[member.tier] = of_tier.get(member.tier, Fraction(0)) + member.weight
        return {member.owner: member.share * member.weight / of_tier[member.tier] for member in asking}

    def _take_back(self, kind: EntryKind, loan: Loan, wanted: int) -> list[Change]:
        amount = min(wanted, self._loans[loan], self._unspent(loan.borrower))
        return [self._move(kind, loan, amount)] if amount > 0 else []

    def _move(self, kind: EntryKind, loan: Loan, amount: int) -> Change:
        signed = amount if kind is EntryKind.LOAN else -amount
        self._loans[loan] = self._loans.get(loan, 0) + signed
        self._lent[loan.lender] = self._lent.get(loan.lender, 0) + signed
        self._borrowed[loan.borrower] = self._borrowed.get(loan.borrower, 0) + signed
        return Change(kind, loan, amount)

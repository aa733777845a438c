"""The entries of a month's close: spending covered in DESIGN's order, loans given back, the rest expired.

Each is stated as the whole flow between two accounts; what is posted is the difference to what was posted before, so a
close can be run again, after late entries or a crash, and posts nothing twice.
"""

from collections.abc import Iterable, Mapping

from plimsoll.ledger.accounts import (
    BUCKET,
    CONCURRENCY,
    EXPIRED,
    HEADROOM,
    OVERDRAFT,
    PART,
    headroom_of,
    world,
)
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.pool import Loan, Loans, Member, draws, totals

Flow = tuple[EntryKind, str, str]
"""kind, source, target."""
Flows = Mapping[Flow, int]


def lent_and_spent(members: Iterable[Member], loans: Loans) -> dict[Loan, int]:
    """Of each loan, what the borrower used; loans are used up in the order of their lenders' names."""
    used: dict[Loan, int] = {}
    lent, borrowed = totals(loans)
    left = {each.owner: draws(each, lent.get(each.owner, 0), borrowed.get(each.owner, 0)).borrowed for each in members}
    for loan in sorted(loans):
        if loan.borrower in left:
            used[loan] = min(left[loan.borrower], loans[loan])
            left[loan.borrower] -= used[loan]
    return used


def closing_flows(members: Iterable[Member], loans: Loans) -> dict[Flow, int]:
    """All that a close moves within its month, from the totals of all members and all that is still lent."""
    members = list(members)
    used = lent_and_spent(members, loans)
    lent, borrowed = totals(loans)
    unused = {loan: loans[loan] - amount for loan, amount in used.items()}
    returned, _ = totals(unused)
    flows: dict[Flow, int] = {}
    for loan, amount in used.items():
        held = loan.borrower.borrowed_from(loan.lender)
        flows[EntryKind.CONVERT, held, loan.borrower.account(BUCKET)] = amount
        flows[EntryKind.RETURN, held, loan.lender.account(PART)] = unused[loan]
    for member in members:
        owner = member.owner
        bucket, part = owner.account(BUCKET), owner.account(PART)
        drawn = draws(member, lent.get(owner, 0), borrowed.get(owner, 0))
        flows[EntryKind.CONVERT, part, bucket] = drawn.own
        flows[EntryKind.CONVERT, owner.account(OVERDRAFT), bucket] = drawn.overdraft
        expired = world(owner.objective, EXPIRED)
        flows[EntryKind.EXPIRE, bucket, expired] = member.bucket - drawn.bucket
        flows[EntryKind.EXPIRE, part, expired] = member.part - lent.get(owner, 0) + returned.get(owner, 0) - drawn.own
    return {flow: amount for flow, amount in flows.items() if amount > 0}


def headroom_flows(headroom: Mapping[str, int]) -> dict[Flow, int]:
    """What the exchange gives for the next month, by tenant."""
    return {
        (EntryKind.CONVERT, world(CONCURRENCY, HEADROOM), headroom_of(tenant)): amount
        for tenant, amount in headroom.items()
        if amount > 0
    }


def posted_flows(entries: Iterable[Entry]) -> dict[Flow, int]:
    """The flows that earlier closes posted; a correction takes back from the flow between the same two accounts."""
    kinds: dict[tuple[str, str], EntryKind] = {}
    sums: dict[tuple[str, str], int] = {}
    for entry in entries:
        back = entry.kind is EntryKind.CORRECT
        pair = (entry.target, entry.source) if back else (entry.source, entry.target)
        sums[pair] = sums.get(pair, 0) + (-entry.amount if back else entry.amount)
        if not back:
            kinds[pair] = entry.kind
    return {(kinds[pair], *pair): amount for pair, amount in sums.items() if amount}


def differences(wanted: Flows, posted: Flows, period: str) -> list[Entry]:
    """Entries that bring what was posted to what is wanted: more of a flow, or a correction back."""
    entries = []
    for flow in sorted({*wanted, *posted}):
        kind, source, target = flow
        amount = wanted.get(flow, 0) - posted.get(flow, 0)
        if amount > 0:
            entries.append(Entry(kind, source, target, amount, period))
        elif amount < 0:
            entries.append(Entry(EntryKind.CORRECT, target, source, -amount, period))
    return entries

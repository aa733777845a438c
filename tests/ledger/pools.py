"""Pools to test with: members and loans that could have come about, small enough for every edge to be met."""

from fractions import Fraction

from hypothesis import strategies as st

from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.entry import EntryKind
from plimsoll.ledger.pool import Change, Loan, Member

CONTRACTS = (None, Fraction(99, 100), Fraction(9, 10))
TIERS = {"gold": Fraction(1, 2), "silver": Fraction(3, 10), "tin": Fraction(0)}


def member(  # noqa: PLR0917 - as the value has parts
    tenant: str,
    bucket: int,
    part: int,
    spent: int,
    ahead: int | None = 0,
    judged: int = 10_000,
    contract: Fraction | None = Fraction(9, 10),
    tier: str = "gold",
) -> Member:
    return Member(
        Owner(tenant, "ttft"), tier, TIERS[tier], Fraction(1), bucket, part, spent, judged, contract, ahead
    )  # fmt: skip


@st.composite
def pools(draw: st.DrawFn) -> list[Member]:
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=6))
    amount = st.integers(0, 60)
    return [
        Member(
            Owner(name, draw(st.sampled_from(["ttft", "first"]))),
            tier := draw(st.sampled_from(sorted(TIERS))),
            TIERS[tier],
            Fraction(draw(st.integers(1, 3))),
            draw(amount),
            draw(amount),
            draw(amount),
            draw(st.integers(0, 2000)),
            draw(st.sampled_from(CONTRACTS)),
            draw(st.none() | amount),
        )
        for name in names
    ]


def applied(loans: dict[Loan, int], changes: list[Change]) -> dict[Loan, int]:
    """The loans after those changes."""
    after = dict(loans)
    for change in changes:
        sign = 1 if change.kind is EntryKind.LOAN else -1
        after[change.loan] = after.get(change.loan, 0) + sign * change.amount
    return after


def lent_by(owner: Owner, loans: dict[Loan, int]) -> int:
    return sum(amount for loan, amount in loans.items() if loan.lender == owner)


def borrowed_by(owner: Owner, loans: dict[Loan, int]) -> int:
    return sum(amount for loan, amount in loans.items() if loan.borrower == owner)

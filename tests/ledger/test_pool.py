"""The shared pool: nothing from nothing, no contract broken by lending, the same in whatever order."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.ledger.accounts import Owner, account_of
from plimsoll.ledger.closing import closing_flows, differences, lent_and_spent, posted_flows
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.ledger import Ledger
from plimsoll.ledger.pool import Draws, Loan, Member, draws, free, plan, share_out
from plimsoll.slo.budget import borrowable
from tests.ledger.pools import applied, borrowed_by, lent_by, member, pools

CAP = Fraction(1, 2)
A, B, C = (Owner(name, "ttft") for name in "abc")


def test_bucket_then_own_part_then_loans_then_overdraft() -> None:
    assert draws(member("a", 8, 4, 5), 0, 3) == Draws(5, 0, 0, 0)
    assert draws(member("a", 8, 4, 11), 0, 3) == Draws(8, 3, 0, 0)
    assert draws(member("a", 8, 4, 13), 2, 3) == Draws(8, 2, 3, 0)
    assert draws(member("a", 8, 4, 20), 2, 3) == Draws(8, 2, 3, 7)


def test_what_is_free_to_lend() -> None:
    assert free(member("a", 10, 6, 7, ahead=5), 1) == 6 - 2 - 1
    assert free(member("a", 10, 6, 7, ahead=20), 1) == 0
    assert free(member("a", 10, 6, 0, ahead=0), 2) == 4
    assert free(member("a", 10, 6, 0, ahead=None), 0) == 0, "unknown is not zero"


def test_simultaneous_borrowers_share_by_tier_share() -> None:
    asking = [member("a", 10, 0, 15, tier="gold"), member("b", 10, 0, 15, tier="silver")]
    changes = plan([*asking, member("c", 100, 8, 0)], {}, Fraction(1))
    assert [(change.loan.borrower, change.amount) for change in changes] == [(A, 5), (B, 3)]
    changes = plan([*asking, member("c", 100, 4, 0)], {}, Fraction(1))
    assert [(change.loan.borrower, change.amount) for change in changes] == [
        (A, 3),
        (B, 1),
    ]  # 2.5 and 1.5: a tie goes by name


@pytest.mark.parametrize(
    ("borrower", "amount"),
    [
        (member("a", 10, 0, 15), 5),
        (member("a", 10, 0, 15, ahead=4), 9),
        (member("a", 6, 0, 15, ahead=9), 3),  # the cap: half of 6
        (member("a", 100, 0, 107, judged=1100), 3),  # the contract: 110 − 107
        (member("a", 100, 0, 120, judged=1100), 0),  # which is broken already
        (member("a", 10, 0, 15, contract=None), 0),
        (member("a", 10, 3, 12), 0),  # still has something of its own
    ],
)
def test_what_one_borrows(borrower: Member, amount: int) -> None:
    changes = plan([borrower, member("c", 1000, 100, 0)], {}, CAP if amount == 3 else Fraction(2))
    assert sum(change.amount for change in changes) == amount


def test_only_unspent_loans_are_recalled() -> None:
    loans = {Loan(B, A): 8}
    borrower = member("a", 10, 0, 13)  # 3 of the 8 are spent
    needs_all = member("b", 5, 8, 20)
    assert plan([borrower, needs_all], loans, CAP) == [(EntryKind.RECALL, Loan(B, A), 5)]
    needs_two = member("b", 5, 8, 7, ahead=0)
    assert plan([borrower, needs_two], loans, CAP)[0] == (EntryKind.RECALL, Loan(B, A), 2)


def test_what_is_no_longer_needed_is_returned() -> None:
    loans = {Loan(B, A): 8}
    assert plan([member("a", 30, 0, 13), member("b", 5, 8, 0)], loans, CAP) == [(EntryKind.RETURN, Loan(B, A), 8)]
    assert plan([member("a", 10, 0, 13, ahead=5), member("b", 5, 8, 0)], loans, CAP) == []


@given(pools(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_laws_of_lending(members: list[Member], dice: object, rounds: int) -> None:
    """Minute after minute with the same totals: the books stay whole, nobody lends what it lacks, order is nothing."""
    loans: dict[Loan, int] = {}
    ledger = Ledger()
    for minute in range(rounds):
        changes = plan(members, loans, CAP)
        shuffled = list(members)
        dice.shuffle(shuffled)  # type: ignore[attr-defined]
        assert plan(shuffled, dict(reversed(loans.items())), CAP) == changes
        ledger.post_all(minute, [change.entry("2026-11") for change in changes])
        loans = applied(loans, changes)
        assert all(amount >= 0 for amount in loans.values())
        assert ledger.imbalance() == 0
        for each in members:
            lent, borrowed = lent_by(each.owner, loans), borrowed_by(each.owner, loans)
            drawn = draws(each, lent, borrowed)
            assert sum(drawn) == each.spent
            new = [change for change in changes if change.kind is EntryKind.LOAN and change.loan.lender == each.owner]
            if new:
                assert each.ahead is not None
                assert each.part - lent >= max(0, each.spent + each.ahead - each.bucket), "keeps what it may need"
            got = [change for change in changes if change.kind is EntryKind.LOAN and change.loan.borrower == each.owner]
            if got:
                unspent = borrowed - drawn.borrowed
                assert unspent <= borrowable(each.num_judged, each.contract, each.spent), (
                    "spent whole, it breaks nothing"
                )
                assert borrowed <= CAP * (each.bucket + each.part)
                assert drawn.own + drawn.bucket == each.bucket + each.part - lent, "its own is used up first"


@given(pools(), st.integers(0, 80))
def test_laws_of_recall(members: list[Member], more: int) -> None:
    """The lender's need grows: it gets back what is unspent, never what is spent."""
    loans = applied({}, plan(members, {}, CAP))
    for lender in {loan.lender for loan in loans}:
        grown = [replace(each, spent=each.spent + more * (each.owner == lender)) for each in members]
        changes = plan(grown, loans, CAP)
        after = applied(loans, [change for change in changes if change.kind is not EntryKind.LOAN])
        for each in grown:
            before = draws(each, lent_by(each.owner, loans), borrowed_by(each.owner, loans)).borrowed
            if each.owner != lender:
                assert borrowed_by(each.owner, after) >= min(before, borrowed_by(each.owner, loans))


@given(
    st.integers(0, 500),
    st.dictionaries(st.sampled_from([Owner(name, "ttft") for name in "abcde"]), st.integers(0, 99), min_size=1),
    st.lists(st.integers(0, 5), min_size=5, max_size=5),
)
def test_sharing_out_is_exact(total: int, limits: dict[Owner, int], weights: list[int]) -> None:
    by_owner = {Owner(name, "ttft"): Fraction(weight) for name, weight in zip("abcde", weights, strict=True)}
    given_ = share_out(total, limits, by_owner)
    assert sum(given_.values()) == min(total, sum(limits.values()))
    assert all(0 <= given_[owner] <= limits[owner] for owner in limits)
    short = [owner for owner in limits if given_[owner] < limits[owner]]
    for one in short:
        for other in limits:
            if by_owner[one] >= by_owner[other] > 0:
                assert given_[one] >= given_[other] - 1, "who weighs more and is not full has no less"


@given(pools(), pools())
def test_a_close_covers_everything_once(members: list[Member], later: list[Member]) -> None:
    """After it nobody's bucket, part or loan holds anything; again it posts nothing; with late entries the rest."""
    loans = applied({}, plan(members, {}, CAP))
    ledger = Ledger()
    for each in members:
        for name, amount in (("bucket", each.bucket), ("part", each.part)):
            if amount:
                ledger.post(
                    f"{each.owner} {name}",
                    Entry(EntryKind.GRANT, f"world/x/{name}", each.owner.account(name), amount, "p"),
                )
        if each.spent:
            spend = Entry(
                EntryKind.SPEND, each.owner.account("bucket"), each.owner.account("spent:ours"), each.spent, "p"
            )
            ledger.post(f"{each.owner} spend", spend)
    for number, change in enumerate(plan(members, {}, CAP)):
        ledger.post(f"loan {number}", change.entry("p"))
    entries = differences(closing_flows(members, loans), {}, "p")
    ledger.post_all(1, entries)
    assert ledger.imbalance() == 0
    for account, _ in ledger.balances():
        name = account_of(account).name
        if (name in {"bucket", "part"} and not account.startswith("world/")) or name.startswith("borrowed:"):
            assert ledger.balance(account, "p") == 0, account
    used = lent_and_spent(members, loans)
    for each in members:
        overdraft = -ledger.balance(each.owner.account("overdraft"), "p")
        assert overdraft == draws(each, lent_by(each.owner, loans), borrowed_by(each.owner, loans)).overdraft
        assert sum(amount for loan, amount in used.items() if loan.borrower == each.owner) <= borrowed_by(
            each.owner, loans
        )
    assert differences(closing_flows(members, loans), posted_flows(entries), "p") == []
    again = differences(closing_flows(later, {}), posted_flows(entries), "p")
    assert posted_flows([*entries, *again]) == closing_flows(later, {})

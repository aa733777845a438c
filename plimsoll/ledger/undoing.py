"""What undoes a decision: never an edit, always a decision of its own, with entries that correct.

| kind | is undone by |
|---|---|
| override | holding no longer |
| action | an override until its month's end |
| pool | what is unspent of its loans going back; its borrowers are lent nothing more in that month |
| correction | its entries the other way round, while its month is open |
| provisional, close | nothing: they follow from the books, and would follow again |
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from plimsoll.errors import UsageError
from plimsoll.ledger.accounts import BUCKET, Owner
from plimsoll.ledger.actions import Action, Override
from plimsoll.ledger.assessment import NOTHING, Known, member_of
from plimsoll.ledger.decided import Corrected, Decided, DecisionKind, PoolEvidence, Undone
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.pool import Loan, taken_back
from plimsoll.ledger.promise import Promises

_encode: Final = msgspec.msgpack.encode


class Wish(NamedTuple):
    """Who wants which decision undone, when and why."""

    key: str
    at: float
    by: str
    why: str

    @property
    def own_key(self) -> str:
        """That of the undoing: a decision is undone once."""
        return f"undo/{self.key}"


def undo(wish: Wish, kind: DecisionKind, data: bytes, promises: Promises, known: Known) -> Decided:
    """The decision that undoes one of that kind with that evidence. UsageError says why there is none."""
    if kind is DecisionKind.OVERRIDE:
        return _undone(wish)
    if kind is DecisionKind.ACTION:
        return _action(wish, msgspec.msgpack.decode(data, type=Action), promises)
    if kind is DecisionKind.POOL:
        return _pool(wish, msgspec.msgpack.decode(data, type=PoolEvidence), promises, known)
    if kind is DecisionKind.CORRECTION:
        return _correction(wish, msgspec.msgpack.decode(data, type=Corrected), promises, known)
    if kind is DecisionKind.UNDO:
        raise UsageError(f"{wish.key} is an undoing: decide anew what it undid")
    raise UsageError(
        f"{wish.key} follows from the books and would follow again: mend what it rests on (the policy, a late"
        " log) and run plimsoll budget close, which posts the difference; plimsoll budget override lifts a lower rank"
    )


def corrected(what: Corrected, promises: Promises, known: Known) -> Decided:
    """The decision that moves wrongly booked events. UsageError where the month is closed or has not so many."""
    owner = Owner(what.tenant, what.objective)
    _check_open(what.period, promises.zone(what.tenant), known)
    month = known.months.get(what.period)
    spent: Mapping[str, int] = {} if month is None else month.figures.get(owner, NOTHING).spent
    booked = spent.get(what.charged, 0)
    if what.num > booked:
        raise UsageError(
            f"{what.tenant} {what.objective} in {what.period}: only {booked} are charged to {what.charged}"
        )
    target = owner.account(f"spent:{what.to}" if what.to else BUCKET)
    entry = Entry(EntryKind.CORRECT, owner.account(f"spent:{what.charged}"), target, what.num, what.period)
    return Decided(what.key, DecisionKind.CORRECTION, (entry,), _encode(what))


def _undone(wish: Wish) -> Decided:
    return Decided(wish.own_key, DecisionKind.UNDO, (), _encode(Undone(*wish)))


def _action(wish: Wish, action: Action, promises: Promises) -> Decided:
    _, end = promises.bounds(action.tenant, promises.period(action.tenant, action.at))
    if wish.at >= end:
        raise UsageError(f"{wish.key} ended with its month: nothing is done on it any more")
    why = wish.why or f"undoes {wish.key}"
    made = Override(wish.own_key, action.tenant, action.objective, wish.at, end, wish.by, why)
    return Decided(made.key, DecisionKind.OVERRIDE, (), _encode(made))


def _pool(wish: Wish, made: PoolEvidence, promises: Promises, known: Known) -> Decided:
    _check_open(made.period, promises.policy.service.timezone, known)
    wanted: dict[Loan, int] = {}
    for lender, borrower, amount in made.lent:
        wanted[Loan(lender, borrower)] = wanted.get(Loan(lender, borrower), 0) + amount
    if not wanted:
        raise UsageError(f"{wish.key} lent nothing: what it took back is lent again by itself where it is needed")
    month = known.months.get(made.period)
    figures = {} if month is None else month.figures
    members = [member_of(each, figures.get(owner, NOTHING), 0) for owner, each in promises.by_owner.items()]
    changes = taken_back(members, {} if month is None else month.loans, wanted)
    if not changes:
        raise UsageError(f"{wish.key}: all that it lent is spent or was given back")
    barred = tuple(sorted({loan.borrower for loan in wanted}))
    undone = Undone(*wish, period=made.period, barred=barred)
    entries = tuple([change.entry(made.period) for change in changes])
    return Decided(wish.own_key, DecisionKind.UNDO, entries, _encode(undone))


def _correction(wish: Wish, made: Corrected, promises: Promises, known: Known) -> Decided:
    _check_open(made.period, promises.zone(made.tenant), known)
    owner = Owner(made.tenant, made.objective)
    entry = Entry(
        EntryKind.CORRECT,
        owner.account(f"spent:{made.to}" if made.to else BUCKET),
        owner.account(f"spent:{made.charged}"),
        made.num,
        made.period,
    )
    return Decided(wish.own_key, DecisionKind.UNDO, (entry,), _encode(Undone(*wish)))


def _check_open(period: str, zone: str, known: Known) -> None:
    if (zone, period) in known.closed:
        raise UsageError(f"{period} is closed in {zone}: what it came to stands")

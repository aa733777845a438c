"""A tenant's month as a statement: what moved on its accounts and what that came to, for both sides to add up.

Other tenants are not named: what was lent or borrowed was lent to, or borrowed from, the pool.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from plimsoll.ledger.accounts import WORLD, account_of
from plimsoll.ledger.entry import Entry

WHOLE_MONTH = "month"
"""In place of a day: grants belong to all of the month."""


class Line(Struct, frozen=True, order=True):
    """Everything of one kind that moved between two accounts on one day, in the unit of the objective."""

    day: str  # in the tenant's zone, 2026-11-30; or "month"
    kind: str
    source: str
    target: str
    amount: int


class AccountLine(Struct, frozen=True):
    """One of the tenant's accounts at the end: in − out = balance."""

    account: str
    came_in: int
    went_out: int
    balance: int


class Statement(Struct, frozen=True):
    """The whole. The balances of `accounts` and of `others` sum to zero."""

    tenant: str
    period: str
    zone: str
    lines: tuple[Line, ...]
    accounts: tuple[AccountLine, ...]
    others: tuple[AccountLine, ...]  # the pool's and the world's side of the same lines

    @property
    def adds_up(self) -> bool:
        """Whether it does."""
        return sum([each.balance for each in (*self.accounts, *self.others)]) == 0


def statement(tenant: str, period: str, zone: str, entries: Iterable[tuple[int, Entry]]) -> Statement:
    """Of entries with their minutes (UTC epoch s ÷ 60; 0: of no instant), all of that period and tenant."""
    moved: Counter[tuple[str, str, str, str]] = Counter()
    days: dict[int, str] = {0: WHOLE_MONTH}
    for minute, entry in entries:
        if minute not in days:
            days[minute] = f"{datetime.fromtimestamp(minute * 60, ZoneInfo(zone)):%Y-%m-%d}"
        source, target = _shown(entry.source, tenant), _shown(entry.target, tenant)
        moved[days[minute], entry.kind.value, source, target] += entry.amount
    lines = tuple(sorted([Line(*key, amount) for key, amount in moved.items()]))
    came_in: Counter[str] = Counter()
    went_out: Counter[str] = Counter()
    for line in lines:
        went_out[line.source] += line.amount
        came_in[line.target] += line.amount
    all_ = [
        AccountLine(account, came_in[account], went_out[account], came_in[account] - went_out[account])
        for account in sorted({*came_in, *went_out})
    ]
    own = f"{tenant}/"
    return Statement(
        tenant,
        period,
        zone,
        lines,
        tuple([each for each in all_ if each.account.startswith(own)]),
        tuple([each for each in all_ if not each.account.startswith(own)]),
    )


def _shown(account: str, tenant: str) -> str:
    """The account without another tenant's name."""
    parts = account_of(account)
    owner = parts.owner
    if owner.tenant == tenant:
        return account if parts.lender is None else owner.account("borrowed")
    return account if owner.tenant == WORLD else f"pool/{owner.objective}/lent"

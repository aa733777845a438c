"""On which accounts a settlement's entries belong: the ordinary ones, those of a window of exception, or late ones.

The governor writes every breach as spending from the bucket. Windows of exception and months that are closed are the
books' own business and follow from the request's instants and the policy that judged it, so that posting a log again
books the same.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from plimsoll.ledger.accounts import BUCKET
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.budget import ExceptionWindow
from plimsoll.slo.budget import period_bounds, period_of

GRACE: Final = 86_400.0
"""s after a month's end in which what belongs to it is still booked in it; then it is closed."""
LATE: Final = "late"


def window_of(arrived_at: float, tenant: str, windows: Iterable[ExceptionWindow]) -> str:
    """The kind of the window of exception in which a request arrived; "" outside all of them."""
    for window in windows:
        if window.from_at <= arrived_at < window.until_at and (not window.tenants or tenant in window.tenants):
            return window.kind.value
    return ""


def is_late(period: str, zone: str, settled_at: float) -> bool:
    """Whether that month was closed when the request ended."""
    return settled_at >= closes_at(period, zone)


@lru_cache(maxsize=4096)
def closes_at(period: str, zone: str) -> float:
    """The instant from which a month is closed."""
    return period_bounds(period, zone)[1] + GRACE


def excepted(entries: Iterable[Entry], kind: str) -> tuple[Entry, ...]:
    """The same breaches, on the account of a window of exception."""
    return tuple(
        [
            Entry(
                each.kind,
                _renamed(each.source, f"exception:{kind}"),
                _after(each.target, "excepted"),
                each.amount,
                each.period,
            )
            for each in entries
        ]
    )


def late(entries: Iterable[Entry], settled_at: float, zone: str) -> tuple[Entry, ...]:
    """The same breaches as corrections of the month in which they became known: the closed one stays as it is."""
    period = period_of(settled_at, zone)
    return tuple(
        [
            Entry(EntryKind.CORRECT, _renamed(each.source, LATE), _after(each.target, LATE), each.amount, period)
            for each in entries
        ]
    )


def _renamed(account: str, name: str) -> str:
    return f"{account.removesuffix(BUCKET)}{name}"


def _after(account: str, name: str) -> str:
    """`acme/ttft/spent:ours` → `acme/ttft/<name>:ours`."""
    owner, _, charged = account.rpartition("/")
    return f"{owner}/{name}:{charged.partition(':')[2]}"

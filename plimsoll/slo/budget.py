"""Error budgets: whole events over exact ratios; rounded down once, when an amount is posted.

| amount | is |
|---|---|
| grant to date | ⌊Σ judged × (1 − τ)⌋, over the spans in which each target τ held |
| pool part | ⌊p × grant to date⌋ |
| bucket | the rest |
| planned grant | grant to date and what the rest of the period is expected to add |
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from math import floor
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct


class BudgetHealth(StrEnum):
    """How a budget is. Nothing is done on the last four, which are unknown, not good (law 8)."""

    HEALTHY = "healthy"
    WARN = "warn"  # `warn_at` of the planned grant is spent
    DEGRADED = "degraded"  # `degrade_at` is
    EXHAUSTED = "exhausted"  # all of it is
    NOT_JUDGED = "not_judged"  # too many requests censored below the threshold
    NO_PLAN = "no_plan"  # neither a commitment nor a whole day's traffic to plan by
    NO_TRAFFIC = "no_traffic"  # nothing was judged this month
    TOO_FEW = "too_few"  # the planned grant allows less than one bad event

    @property
    def words(self) -> str:
        """As people read it, the same everywhere: forecasts and burn say "no traffic", too."""
        return self.value.replace("_", " ")


class HourCount(NamedTuple):
    """What was judged in one hour, by the instant at which requests ended."""

    hour: int  # UTC epoch s // 3600
    num_judged: int  # requests, or tokens for ITL
    num_bad: int


class Judged(NamedTuple):
    """Good + bad events (requests or tokens) under one target."""

    num: int
    target: Fraction


class Grant(Struct, frozen=True):
    """What the target allows to be bad so far, and how it is divided."""

    total: int
    pool_part: int
    bucket: int


class Budget(Struct, frozen=True):
    """Where one objective of one tenant stands. Amounts in its unit: requests, or tokens for ITL."""

    num_judged: int
    grant: Grant
    spent: int
    planned: int | None  # the whole period's grant as planned; None: no plan

    @property
    def remaining(self) -> int:
        """Of the grant to date; negative when overspent."""
        return self.grant.total - self.spent

    @property
    def spent_ratio(self) -> float | None:
        """Of the grant to date; None where nothing was granted yet."""
        return self.spent / self.grant.total if self.grant.total else None

    @property
    def planned_spent_ratio(self) -> float | None:
        """Of the planned grant, on which actions go; None without a plan."""
        return self.spent / self.planned if self.planned else None

    @property
    def exhausted(self) -> bool:
        """Spent the whole planned grant. Without a plan nothing is exhausted, since nothing is acted on."""
        return self.planned is not None and self.spent > 0 and self.spent >= self.planned


def grant_to_date(judged: Iterable[Judged], shared_pool: Fraction) -> Grant:
    """Exact, whatever the spans: the floor is taken of the sum, never of its parts."""
    total = floor(sum((each.num * (1 - each.target) for each in judged), Fraction(0)))
    pool_part = floor(shared_pool * total)
    return Grant(total, pool_part, total - pool_part)


def planned_grant(judged: Iterable[Judged], target: Fraction, rate: Fraction, seconds_left: Fraction) -> int:
    """Grant of the whole period if the rest of it brings `rate` events a second under the present target."""
    so_far = sum((each.num * (1 - each.target) for each in judged), Fraction(0))
    return floor(so_far + rate * seconds_left * (1 - target))


def period_of(at: float, timezone: str) -> str:
    """The calendar month of an instant (UTC epoch s) in a zone: "2026-11"."""
    moment = datetime.fromtimestamp(at, ZoneInfo(timezone))
    return f"{moment.year:04d}-{moment.month:02d}"


def period_bounds(period: str, timezone: str) -> tuple[float, float]:
    """Instants (UTC epoch s) at which a month begins and ends in a zone, half-open."""
    year, month = int(period[:4]), int(period[5:7])
    zone = ZoneInfo(timezone)
    first = datetime(year, month, 1, tzinfo=zone)
    some_day_after = first + timedelta(days=32)
    after = datetime(some_day_after.year, some_day_after.month, 1, tzinfo=zone)
    return first.timestamp(), after.timestamp()


def borrowable(judged: int, contract: Fraction | None, spent: int) -> int:
    """The most a tenant may borrow before it would break its contract: ⌊judged × (1 − contract)⌋ − spent, never < 0."""
    return 0 if contract is None else max(0, floor(judged * (1 - contract)) - spent)

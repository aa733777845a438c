"""What the books know of one tenant's objective in one month, and of recent traffic: the material of every decision."""

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from msgspec import Struct

from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.pool import Loan
from plimsoll.slo.budget import HourCount, Judged, planned_grant

HOUR: Final = 3600
WEEK_HOURS: Final = 7 * 24
LEAST_HOURS: Final = 24
"""Whole hours of traffic before their mean is taken for a plan."""


class Figures(Struct, frozen=True):
    """One tenant's objective, month to date; amounts in its unit."""

    owner: Owner
    judged: tuple[Judged, ...] = ()  # by target
    num_requests: int = 0  # with at least one judged event
    num_censored: int = 0  # requests
    bucket: int = 0  # granted
    part: int = 0
    spent: Mapping[str, int] = {}  # by charge
    num_excepted: int = 0  # bad events in windows of exception
    num_late: int = 0  # corrections of months that were closed

    @property
    def num_judged(self) -> int:
        """Good and bad."""
        return sum([each.num for each in self.judged])

    @property
    def num_spent(self) -> int:
        """Bad, whoever's fault."""
        return sum(self.spent.values())

    @property
    def grant(self) -> int:
        """To date."""
        return self.bucket + self.part

    def is_judged(self, censored_limit: Fraction) -> bool:
        """Whether few enough clients left before the threshold for the rest to speak for them."""
        return self.num_censored <= censored_limit * (self.num_censored + self.num_requests)


class Month(Struct, frozen=True):
    """The books of one calendar month."""

    period: str
    figures: Mapping[Owner, Figures] = {}
    loans: Mapping[Loan, int] = {}  # lent, and neither recalled nor returned before the close
    headroom: Mapping[str, int] = {}  # by tenant: what the month before gave for this one, less what expired


class History(Struct, frozen=True):
    """Traffic of one objective by the instant at which requests ended: (judged, bad)."""

    hours: Mapping[int, tuple[int, int]] = {}  # UTC epoch s // 3600
    minutes: Mapping[int, tuple[int, int]] = {}  # UTC epoch s // 60; the last hours only

    def counts(self) -> list[HourCount]:
        """Hour by hour, as forecasts want it."""
        return [HourCount(hour, *self.hours[hour]) for hour in sorted(self.hours)]

    def window(self, at: float, seconds: int) -> tuple[int, int]:
        """(judged, bad) of the last so many seconds, to the minute where minutes are kept, else by whole hours."""
        last, start = int(at // HOUR), int(at) - seconds
        first = -(-start // HOUR)
        hours = [self.hours[hour] for hour in range(first, last + 1) if hour in self.hours]
        edge = [self.minutes[minute] for minute in range(-(-start // 60), first * 60) if minute in self.minutes]
        return sum([judged for judged, _ in hours + edge]), sum([bad for _, bad in hours + edge])

    def weekly_rate(self, at: float) -> Fraction | None:
        """Mean judged events a second over the last seven days, or since the first of them; None below a day."""
        now = int(at // HOUR)
        known = [hour for hour in self.hours if now - WEEK_HOURS <= hour < now]
        earliest = min(self.hours, default=now)
        span = min(WEEK_HOURS, now - earliest)
        if span < LEAST_HOURS:
            return None
        return Fraction(sum([self.hours[hour][0] for hour in known]), span * HOUR)


class PlannedBy(StrEnum):
    """What says how much the rest of a month will bring."""

    COMMITMENT = "commitment"
    LAST_WEEK = "last week"


class Plan(NamedTuple):
    """The planned grant of a month, and what it rests on."""

    grant: int
    by: PlannedBy


def plan_of(  # noqa: PLR0917 - what a plan is made of
    figures: Figures,
    target: Fraction,
    bounds: tuple[float, float],
    at: float,
    committed: int | None,
    history: History,
    *,
    tokens: bool,
) -> Plan | None:
    """The planned grant of the month with these bounds; None: no plan.

    A commitment is spread evenly over the month; for token objectives it is multiplied by the tokens of a request as
    they were this month. Without one, or while no request tells how many tokens one has, the last seven days' mean
    holds on.
    """
    begin, end = bounds
    left = Fraction(max(0, int(end - at)))
    per_request: Fraction | None = Fraction(1)
    if tokens:
        per_request = Fraction(figures.num_judged, figures.num_requests) if figures.num_requests else None
    if committed is not None and per_request is not None:
        rate, by = Fraction(committed, int(end - begin)) * per_request, PlannedBy.COMMITMENT
    else:
        mean = history.weekly_rate(at)
        if mean is None:
            return None
        rate, by = mean, PlannedBy.LAST_WEEK
    return Plan(planned_grant(figures.judged, target, rate, left), by)


def committed_grant(committed: int | None, target: Fraction, figures: Figures, *, tokens: bool) -> int | None:
    """What a month that brings exactly the commitment would grant; None where there is none or it cannot be said."""
    if committed is None:
        return None
    if not tokens:
        return int(committed * (1 - target))
    if not figures.num_requests:
        return None
    return int(committed * Fraction(figures.num_judged, figures.num_requests) * (1 - target))

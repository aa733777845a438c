"""A month's end, zone by zone: headroom and demotion from midnight on (provisional), the close a day later.

Everything follows from the books and the instant, so it does not matter whether anybody ran at midnight: whoever comes
later finds what is due, and what was posted already is not posted again.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.ledger.accounts import CONCURRENCY, HEADROOM, Owner, headroom_of, world
from plimsoll.ledger.actions import override_of
from plimsoll.ledger.assessment import NO_HISTORY, NOTHING, Known, member_of
from plimsoll.ledger.booking import closes_at
from plimsoll.ledger.closing import closing_flows, differences, headroom_flows, lent_and_spent, posted_flows
from plimsoll.ledger.decided import CloseEvidence, Decided, DecisionKind, Exchanged
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.exchange import Closing, exchange
from plimsoll.ledger.figures import Month, committed_grant, plan_of
from plimsoll.ledger.pool import Member, totals
from plimsoll.ledger.promise import Promised, Promises, month_after, month_before
from plimsoll.slo.budget import period_of

NO_MONTH: Final = Month("")


class TenantStanding(Struct, frozen=True):
    """What a month gives or takes, in [from_at, until_at)."""

    tenant: str
    period: str
    from_at: float
    until_at: float
    headroom: int
    demoted: bool
    because: str
    final: bool  # the month before is closed


class MonthEnds:
    """What is due at one instant."""

    def __init__(self, promises: Promises, known: Known, at: float) -> None:
        self.decisions: list[Decided] = []
        self.standings: list[TenantStanding] = []
        self._promises = promises
        self._months = known.months
        self._histories = known.histories
        self._provisional = known.provisional
        self._closed = known.closed
        self._overrides = known.overrides
        self._at = at
        self._of_zone: dict[str, list[Promised]] = {}
        for owner in sorted(promises.by_owner):
            promised = promises.by_owner[owner]
            self._of_zone.setdefault(promised.zone, []).append(promised)

    def settle(self) -> "MonthEnds":
        """All that is due; returns itself. A service of rolling periods has no month's ends."""
        if self._promises.policy.service.period == "month":
            for zone in sorted(self._of_zone):
                now = period_of(self._at, zone)
                for period in sorted(self._months):
                    if period < now:
                        self._end(zone, period)
                self._stand(zone, now)
        return self

    def close(self, zone: str, period: str) -> Decided | None:
        """The close of a month, or what a further one has to add; None where there is nothing."""
        earlier = self._closed.get((zone, period), ())
        exchanged = self._exchanged(zone, period)
        entries = self._closing_entries(zone, period, exchanged)
        if earlier and not entries:
            return None
        evidence = CloseEvidence(self._at, zone, period, exchanged, entries)
        key = f"close/{zone}/{period}/{len(earlier) + 1}"
        return Decided(key, DecisionKind.CLOSE, entries, msgspec.msgpack.encode(evidence))

    def _end(self, zone: str, period: str) -> None:
        """What that month's end still has to post by itself; corrections of a close are made on demand."""
        month = self._months[period]
        if (zone, period) in self._closed or not any(each.owner in month.figures for each in self._of_zone[zone]):
            return
        if self._at >= closes_at(period, zone):
            decided = self.close(zone, period)
            if decided is not None:
                self.decisions.append(decided)
        elif (zone, period) not in self._provisional:
            exchanged = self._exchanged(zone, period)
            entries = tuple(differences(self._headroom(exchanged), {}, month_after(period)))
            evidence = msgspec.msgpack.encode(CloseEvidence(self._at, zone, period, exchanged, entries))
            key = f"provisional/{zone}/{period}"
            self.decisions.append(Decided(key, DecisionKind.PROVISIONAL, entries, evidence))

    def _stand(self, zone: str, now: str) -> None:
        """This month's standings by the month before, and the next one's by this month so far."""
        before = month_before(now)
        last = self._closed.get((zone, before), ())
        exchanged = last[-1].exchanged if last else self._exchanged(zone, before)
        for period, each, final in (
            *((now, each, bool(last)) for each in exchanged),
            *((month_after(now), each, False) for each in self._exchanged(zone, now)),
        ):
            if each.headroom or each.demoted:
                self._stand_one(period, each, final=final)

    def _stand_one(self, period: str, exchanged: Exchanged, *, final: bool) -> None:
        if self._promises.policy.budget.dry_run:
            return
        tenant = exchanged.tenant
        begin, end = self._promises.bounds(tenant, period)
        forgiven = override_of(self._overrides, tenant, "", max(self._at, begin))
        demoted = exchanged.demoted and forgiven is None
        because = exchanged.because if demoted or forgiven is None else f"{exchanged.because}; override {forgiven.key}"
        self.standings.append(TenantStanding(tenant, period, begin, end, exchanged.headroom, demoted, because, final))

    def _exchanged(self, zone: str, period: str) -> tuple[Exchanged, ...]:
        month = self._months.get(period, Month(period))
        over = period < period_of(self._at, zone)
        used = lent_and_spent([self._member(each, month) for each in self._of_zone.get(zone, [])], month.loans)
        lent, _ = totals(used)
        by_tenant: dict[str, list[Promised]] = {}
        for promised in self._of_zone.get(zone, []):
            by_tenant.setdefault(promised.tenant.name, []).append(promised)
        return tuple([self._exchange(promised, month, lent, over=over) for promised in by_tenant.values()])

    def _exchange(self, promised: list[Promised], month: Month, lent: Mapping[Owner, int], *, over: bool) -> Exchanged:
        tenant = promised[0].tenant
        closings = [self._closing(each, month, lent.get(each.owner, 0), over=over) for each in promised]
        rules = self._promises.policy.budget
        done = exchange(
            closings,
            tenant.limits.concurrency,
            promised[0].tier.exchange,
            rules.exchange_cap,
            may_fall=self._promises.may_fall(tenant),
        )
        return Exchanged(tenant.name, done.headroom, done.demoted, done.because)

    def _closing(self, promised: Promised, month: Month, lent_spent: int, *, over: bool) -> Closing:
        """A month that is over is its own plan. An objective that judged nothing says nothing: that is not zero."""
        figures = month.figures.get(promised.owner, NOTHING)
        objective, committed, tokens = promised.objective, promised.committed, promised.objective.counts_tokens
        planned: int | None = figures.grant
        if not over:
            bounds = self._promises.bounds(promised.tenant.name, month.period)
            history = self._histories.get(promised.owner, NO_HISTORY)
            plan = plan_of(figures, objective.target, bounds, self._at, committed, history, tokens=tokens)
            planned = None if plan is None else plan.grant
        return Closing(
            objective.name,
            figures.grant,
            figures.num_spent,
            figures.spent.get("ours", 0),
            lent_spent,
            committed_grant(committed, objective.target, figures, tokens=tokens) if figures.num_judged else None,
            planned,
            judged=figures.is_judged(self._promises.policy.service.censored_limit),
        )

    def _closing_entries(self, zone: str, period: str, exchanged: tuple[Exchanged, ...]) -> tuple[Entry, ...]:
        """Of the month itself, and of the next one's headroom."""
        month = self._months.get(period, NO_MONTH)
        following = month_after(period)
        promised = self._of_zone.get(zone, [])
        posted = [entry for each in self._closed.get((zone, period), ()) for entry in each.entries]
        given = [entry for each in self._provisional.get((zone, period), ()) for entry in each.entries]
        members = [self._member(each, month) for each in promised]
        if zone == self._promises.policy.service.timezone:
            members += self._departed(month)
        owners = {member.owner for member in members}
        loans = {loan: amount for loan, amount in month.loans.items() if loan.borrower in owners}
        wanted = closing_flows(members, loans)
        for tenant in sorted({each.tenant.name for each in promised}):
            if month.headroom.get(tenant):
                flow = (EntryKind.EXPIRE, headroom_of(tenant), world(CONCURRENCY, HEADROOM))
                wanted[flow] = month.headroom[tenant]
        own = [entry for entry in posted if entry.period == period]
        next_ones = [entry for entry in (*given, *posted) if entry.period == following]
        return (
            *differences(wanted, posted_flows(own), period),
            *differences(self._headroom(exchanged), posted_flows(next_ones), following),
        )

    def _headroom(self, exchanged: Iterable[Exchanged]) -> dict[tuple[EntryKind, str, str], int]:
        if self._promises.policy.budget.dry_run:
            return {}
        return headroom_flows({each.tenant: each.headroom for each in exchanged})

    def _departed(self, month: Month) -> list[Member]:
        """Those who left the policy within the month: their accounts are closed with the service's own zone."""
        return [
            Member(
                owner, "", Fraction(0), Fraction(1), left.bucket, left.part, left.num_spent, left.num_judged, None, None
            )
            for owner, left in month.figures.items()
            if owner not in self._promises.by_owner
        ]

    @staticmethod
    def _member(promised: Promised, month: Month) -> Member:
        return member_of(promised, month.figures.get(promised.owner, NOTHING), 0)

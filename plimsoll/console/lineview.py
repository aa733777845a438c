"""Page 1, the line: what to look at first, load against safe load, tails, budgets, what changed. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from plimsoll.analytics.figures import LatencyFigure
from plimsoll.console.gauges import GaugeRow, gauge_rows
from plimsoll.console.leads import Lead, lead_of
from plimsoll.console.logreading import Hour
from plimsoll.console.seen import Seen
from plimsoll.diagnosis.findings import Findings
from plimsoll.ledger.assessment import Row
from plimsoll.slo.budget import BudgetHealth
from plimsoll.storage.chronicle import JournalEntry

MOST_TAILS: Final = 12
MOST_BUDGETS: Final = 8
MOST_CHANGES: Final = 12
SEVERITY: Final = {
    BudgetHealth.EXHAUSTED: 0, BudgetHealth.DEGRADED: 1, BudgetHealth.WARN: 2, BudgetHealth.HEALTHY: 3,
}  # fmt: skip


class TailLine(Struct, frozen=True):
    """One tenant's TTFT in the window."""

    tenant: str
    tier: str
    num: int
    num_bad: int
    ttft: LatencyFigure
    href: str


class Change(Struct, frozen=True):
    """Something that happened in the last hour. `num` above 1: so many of one kind, `at` the last of them."""

    at: float
    kind: str
    tenant: str
    text: str
    values: dict[str, str]
    num: int
    href: str


class LineView(Struct, frozen=True):
    """All of page 1. Parts that are not read yet are None."""

    lead: Lead | None
    diagnosed: bool  # whether the log was looked through for a lead
    gauges: tuple[GaugeRow, ...]
    has_safe: bool
    has_budgets: bool
    tails: tuple[TailLine, ...]
    num_tenants: int
    budgets: tuple[Row, ...]
    health: dict[str, int]
    changes: tuple[Change, ...]
    num: int
    num_ended: int | None
    since: float | None
    until: float | None
    num_waiting: int | None
    num_in_flight: int | None
    completed_ratio: float | None  # of the requests that arrived in the window and have ended


def line_view(seen: Seen) -> LineView:
    """The page from what was read."""
    hour, findings, budgets = seen.hour, seen.findings, seen.budgets or ()
    waiting = waiting_by_tier(seen.snapshot)
    rows = () if hour is None else gauge_rows(hour.loads, seen.safe or (), seen.policy, hour.until, waiting)
    tails = () if hour is None else tail_lines(hour)
    return LineView(
        lead=lead_of(findings, seen.policy) if findings else None,
        diagnosed=findings is not None,
        gauges=rows,
        has_safe=seen.safe is not None,
        has_budgets=seen.budgets is not None,
        tails=tails[:MOST_TAILS],
        num_tenants=len(tails),
        budgets=tuple(by_danger(budgets)[:MOST_BUDGETS]),
        health=dict(Counter(row.health.value for row in budgets)),
        changes=tuple(changes(seen.entries, seen.reasons, findings)),
        num=0 if hour is None else hour.num,
        num_ended=seen.num_ended,
        since=None if hour is None else hour.since,
        until=None if hour is None else hour.until,
        num_waiting=_sum(seen.snapshot, "waiting"),
        num_in_flight=_sum(seen.snapshot, "in_flight"),
        completed_ratio=None if hour is None or not hour.num else hour.outcomes.get("completed", 0) / hour.num,
    )


def tail_lines(hour: Hour) -> tuple[TailLine, ...]:
    """Every tenant of the window, the widest tail first; those without a ratio last, by requests."""
    found = [
        TailLine(
            group.labels["tenant"],
            group.labels["tier"],
            group.num,
            group.num_bad,
            next(each for each in group.latencies if each.name == "ttft"),
            f"/tenants/{quote(group.labels['tenant'], safe='')}",
        )
        for group in hour.tenants
    ]
    return tuple(sorted(found, key=lambda each: (-(each.ttft.p99_over_p50.value or 0.0), -each.num, each.tenant)))


def by_danger(budgets: Iterable[Row]) -> list[Row]:
    """The most spent first: by state, hours left, share spent."""

    def key(row: Row) -> tuple[float, ...]:
        hours = row.outlook.hours_low if row.outlook.hours_low is not None else 1e9
        burn = max([rate or 0.0 for rate in row.burn])
        return SEVERITY.get(row.health, 4), hours, -(row.spent_ratio or 0.0), -burn, -row.num_spent

    return sorted(budgets, key=lambda row: (*key(row), row.tenant, row.objective))


def changes(
    entries: Iterable[JournalEntry], reasons: Mapping[tuple[str, str, str], int], findings: Findings | None
) -> list[Change]:
    """What was decided and what began, the latest first; endings of one kind are one line."""
    found, last = [], {}
    for entry in entries:
        if entry.kind == "request":
            last[entry.tenant, entry.detail["outcome"], entry.reason] = entry.at
        else:
            found.append(Change(entry.at, entry.kind, entry.tenant, entry.text, {}, 1, journal_link(entry)))
    for (tenant, outcome, reason), num in reasons.items():
        at = last.get((tenant, outcome, reason))
        if at is not None:
            href = f"/journal?tenant={quote(tenant, safe='')}&kind=request&reason={reason}"
            values = {"outcome": outcome, "reason": reason}
            found.append(Change(at, "request", tenant, "{outcome}: {reason}", values, num, href))
    for each in findings.tenants if findings else ():
        for change in each.changes:
            text = "missed or slow: {before} → {after}"
            values = {"before": f"{change.before.ratio:.1%}", "after": f"{change.after.ratio:.1%}"}
            kind = "worse" if change.worse else "better"
            href = f"/diagnose?tenant={quote(each.tenant, safe='')}"
            found.append(Change(change.at, kind, each.tenant, text, values, 1, href))
    return sorted(found, key=lambda each: -each.at)[:MOST_CHANGES]


def journal_link(entry: JournalEntry) -> str:
    """The journal, filtered to its like."""
    tenant = f"&tenant={quote(entry.tenant, safe='')}" if entry.tenant else ""
    return f"/journal?kind={entry.kind}{tenant}"


def waiting_by_tier(snapshot: Mapping[str, Any] | None) -> dict[tuple[str, str], int] | None:
    """By pool and tier what waits there now; None where no gateway says."""
    if snapshot is None:
        return None
    found: Counter[tuple[str, str]] = Counter()
    for queue in snapshot.get("queues", ()):
        found[queue["pool"], queue["tier"]] += queue["waiting"]
    return found


def _sum(snapshot: Mapping[str, Any] | None, name: str) -> int | None:
    return None if snapshot is None else sum(pool[name] for pool in snapshot.get("pools", ()))

"""Page 2: the table of tenants, and the page of one. Pure."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from msgspec import Struct

from plimsoll.console import tenantcharts
from plimsoll.console.leads import tier_of
from plimsoll.console.lineview import MOST_TAILS, SEVERITY, TailLine, by_danger, tail_lines
from plimsoll.console.plots import Bars, Lines, TailRow, Tails
from plimsoll.console.seen import Seen
from plimsoll.console.tenantreading import SlowRequest, TenantLog
from plimsoll.governor.events import Standing
from plimsoll.ledger.assessment import Row
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy
from plimsoll.slo.intervals import clopper_pearson

WINDOWS: Final = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}


class TenantRow(Struct, frozen=True):
    """One line of the table. `budget` is that of its objective in most danger."""

    tenant: str
    tier: str
    tail: TailLine | None  # None: no request in the last hour
    worst: str  # the objective that fared worst in the last hour, by its burn
    attainment: float | None
    target: float | None
    budget: Row | None
    waiting: int | None


class TenantsView(Struct, frozen=True):
    """The table, the worst first; tails of those whose are widest."""

    rows: tuple[TenantRow, ...]
    tails: Tails
    loading: bool
    num: int


class Kept(Struct, frozen=True):
    """One objective of the page: promise, what was kept in the window, where its budget stands."""

    objective: Objective
    good: int
    bad: int
    ratio: float | None
    low: float | None
    high: float | None
    met: bool | None
    budget: Row | None


class TenantView(Struct, frozen=True):
    """The page of one tenant."""

    tenant: str
    tier: str
    window: str
    log: TenantLog
    kept: tuple[Kept, ...]
    charts: tuple[Lines | Bars, ...]
    slow: tuple[SlowRequest, ...]
    standing: Standing | None
    months: tuple[str, ...]


def tenants_view(seen: Seen) -> TenantsView:
    """Every tenant of the policy and every other that came, by danger."""
    tails = {line.tenant: line for line in (tail_lines(seen.hour) if seen.hour else ())}
    budgets: dict[str, Row] = {}
    for row in by_danger(seen.budgets or ()):
        budgets.setdefault(row.tenant, row)
    names = [*[tenant.name for tenant in seen.policy.tenants], *tails]
    rows = [_tenant_row(name, seen, tails.get(name), budgets.get(name)) for name in dict.fromkeys(names)]
    num = seen.hour.num if seen.hour else 0
    return TenantsView(tuple(sorted(rows, key=_danger)), _tails(seen), seen.hour is None, num)


def _tails(seen: Seen) -> Tails:
    promised = {
        tier.name: min([each.below for each in tier.objectives if each.sli is Sli.TTFT], default=None)
        for tier in seen.policy.tiers
    }
    lines = tail_lines(seen.hour)[:MOST_TAILS] if seen.hour else ()
    rows = [TailRow(f"{each.tenant} ({each.tier})", each.ttft, promised.get(each.tier)) for each in lines]
    num = sum(each.ttft.num for each in lines)
    return Tails("tails", "Time to first token", "s", "1h", num, tuple(rows))


def _tenant_row(name: str, seen: Seen, tail: TailLine | None, budget: Row | None) -> TenantRow:
    targets = _targets(seen.policy)
    worst: tuple[float, str, float, float] | None = None
    for each in seen.hour.judged if seen.hour else ():
        target = targets.get((each.tier, each.objective))
        if each.owner == name and target is not None and each.good + each.bad:
            share = each.bad / (each.good + each.bad)
            burn = share / max(1e-9, float(1 - target))
            if worst is None or burn > worst[0]:
                worst = (burn, each.objective, 1 - share, float(target))
    queues = None if seen.snapshot is None else seen.snapshot.get("queues", ())
    waiting = None if queues is None else sum(queue["waiting"] for queue in queues if queue["tenant"] == name)
    _, objective, attainment, target_ratio = worst or (0.0, "", None, None)
    tier = tail.tier if tail else tier_of(name, seen.policy)
    return TenantRow(name, tier, tail, objective, attainment, target_ratio, budget, waiting)


def _targets(policy: Policy) -> dict[tuple[str, str], Fraction]:
    return {(tier.name, each.name): each.target for tier in policy.tiers for each in tier.objectives}


def _danger(row: TenantRow) -> tuple[float, ...]:
    severity = float(SEVERITY.get(row.budget.health, 4)) if row.budget else 5.0
    burn = 0.0
    if row.attainment is not None and row.target is not None:
        burn = (1 - row.attainment) / max(1e-9, 1 - row.target)
    ratio = row.tail.ttft.p99_over_p50.value if row.tail else None
    return min(severity, 3.0), -round(burn, 6), -(ratio or 0.0), -(row.tail.num if row.tail else 0)


def tenant_view(seen: Seen, log: TenantLog, window: str, standings: Sequence[Standing], at: float) -> TenantView:
    """The page of one tenant."""
    tier = tier_of(log.tenant, seen.policy)
    objectives = next((each.objectives for each in seen.policy.tiers if each.name == tier), ())
    budgets = {row.objective: row for row in seen.budgets or () if row.tenant == log.tenant}
    zone = seen.policy.service.timezone
    promised = {each.sli.value: each.below for each in objectives}
    worst = max(objectives, key=lambda each: _bad_of(log, each.name), default=None)
    charts: list[Lines | Bars] = [
        tenantcharts.tail_lines(log, "ttft", "Time to first token", promised.get("ttft"), zone),
        tenantcharts.tail_lines(log, "e2e", "Whole answer", promised.get("e2e"), zone),
        tenantcharts.objective_lines(log, objectives, zone),
        tenantcharts.charge_bars(log),
    ]
    if worst is not None:
        hours = log.hours.get(worst.name, [])
        charts.append(tenantcharts.budget_lines(worst, hours, at, zone))
        charts.append(tenantcharts.forecast_lines(worst.name, hours, at, zone))
    return TenantView(
        tenant=log.tenant,
        tier=tier,
        window=window,
        log=log,
        kept=tuple([_kept(log, each, budgets.get(each.name)) for each in objectives]),
        charts=tuple(charts),
        slow=log.slow,
        standing=next((each for each in standings if each.tenant == log.tenant), None),
        months=tuple(sorted({row.period for row in budgets.values()})),
    )


def _bad_of(log: TenantLog, objective: str) -> int:
    return sum(hour.num_bad for hour in log.hours.get(objective, ()))


def _kept(log: TenantLog, objective: Objective, budget: Row | None) -> Kept:
    good = sum(each.good for each in log.judged if each.objective == objective.name)
    bad = sum(each.bad for each in log.judged if each.objective == objective.name)
    if good + bad == 0:
        return Kept(objective, 0, 0, None, None, None, None, budget)
    low, high = clopper_pearson(good, good + bad)
    ratio = Fraction(good, good + bad)
    return Kept(objective, good, bad, float(ratio), low, high, ratio >= objective.target, budget)

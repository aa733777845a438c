"""Gathers records into the tallies of a report. `storage/aggregate.py` gathers the same from a large log by SQL."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import inf
from typing import Final, NamedTuple

from plimsoll.analytics.tally import Promises, Tally, promises_of
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.slo.budget import period_of


class Window(NamedTuple):
    """Which requests a report is about, by arrival (UTC epoch s, half-open) and tenant."""

    since: float = -inf
    until: float = inf
    tenant: str | None = None


EVERYTHING: Final = Window()
"""All that the log holds."""


MAX_CAUSES: Final = 50
"""Causes shown by name, the most frequent ones: clients choose their names, so there may be any number."""
OTHER_CAUSES: Final = "(others)"


class BudgetKey(NamedTuple):
    """One budget: an objective of a tenant over one calendar month (of the tenant's zone) under one target."""

    tenant: str
    tier: str
    objective: str
    period: str
    target: Fraction


class Gathered:
    """What a report is compiled from."""

    def __init__(self) -> None:
        self.tenants: dict[tuple[str, str], Tally] = {}  # by (tenant, tier)
        self.causes: dict[str, Tally] = {}
        self.budgets: dict[BudgetKey, tuple[int, int]] = {}  # judged, bad; of whole months up to the window's end
        self.design_effects: dict[tuple[str, str, str, float], float] = {}  # (kind, group, latency, quantile)
        self.num_repeated = 0  # rows beyond the first of a request: always 0, or the log is wrong
        self.policy_versions: set[str] = set()

    def tally_of(self, tenant: str, tier: str) -> Tally:
        """The tally of a tenant's requests in a tier, made when first asked for."""
        return self.tenants.setdefault((tenant, tier), Tally())


def gather(
    records: Iterable[Record], policy: Policy, window: Window = EVERYTHING, versions: Mapping[str, Policy] | None = None
) -> Gathered:
    """One pass over records in any order; `versions` are the policies by which earlier ones were judged."""
    gathered = Gathered()
    by_version = {policy.version: policy} | dict(versions or {})
    promises = {version: promises_of(each) for version, each in by_version.items()}
    seen: set[int] = set()
    for record in records:
        if window.tenant is not None and record.tenant != window.tenant:
            continue
        if record.arrived_at >= window.until:
            continue
        known = promises.get(record.policy_version, promises[policy.version])
        _book(gathered, record, known, zone_of(policy, record.tenant), window.since)
        if record.arrived_at < window.since:
            continue
        gathered.num_repeated += record.request_id in seen
        seen.add(record.request_id)
        gathered.policy_versions.add(record.policy_version)
        gathered.tally_of(record.tenant, record.tier).add(record, known)
        gathered.causes.setdefault(record.cause, Tally()).add(record, known)
    _fold_rare_causes(gathered)
    return gathered


def zone_of(policy: Policy, tenant: str) -> str:
    """The zone in which a tenant's months are counted."""
    own = next((each.timezone for each in policy.tenants if each.name == tenant), None)
    return own or policy.service.timezone


def _fold_rare_causes(gathered: Gathered) -> None:
    ranked = sorted(gathered.causes.items(), key=lambda item: (-item[1].num, item[0]))
    for cause, tally in ranked[MAX_CAUSES:]:
        gathered.causes.setdefault(OTHER_CAUSES, Tally()).merge(tally)
        del gathered.causes[cause]


def _book(gathered: Gathered, record: Record, promises: Promises, zone: str, since: float) -> None:
    """Into the month of its arrival, from the window's first month on."""
    period = period_of(record.arrived_at, zone)
    if since > -inf and period < period_of(since, zone):
        return
    for verdict in record.verdicts:
        objective = promises.get((record.tier, verdict.objective))
        if objective is not None and verdict.num_good + verdict.num_bad:
            key = BudgetKey(record.tenant, record.tier, verdict.objective, period, objective.target)
            judged, bad = gathered.budgets.get(key, (0, 0))
            gathered.budgets[key] = (judged + verdict.num_good + verdict.num_bad, bad + verdict.num_bad)

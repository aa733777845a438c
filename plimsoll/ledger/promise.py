"""Who is promised what, found by name once a policy: tenants, their objectives, their months."""

import re
from typing import Final

from msgspec import Struct

from plimsoll.ledger.accounts import Owner
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import Policy, Tenant, Tier
from plimsoll.slo.budget import period_bounds, period_of

_MONTH: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


class Promised(Struct, frozen=True):
    """One objective as it is promised to one tenant now."""

    owner: Owner
    tenant: Tenant
    tier: Tier
    objective: Objective
    zone: str
    pooled: bool  # whether it takes part in the shared pool: months of the service's own zone only

    @property
    def committed(self) -> int | None:
        """Requests a month that it may be planned by; of runs nobody has committed any."""
        return None if self.objective.sli is Sli.RUN else self.tenant.committed


class Promises:
    """A policy as budgets see it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.by_owner: dict[Owner, Promised] = {}
        self.zones: dict[str, str] = {}
        """Of each tenant's months."""
        tiers = {tier.name: tier for tier in policy.tiers}
        for tenant in policy.tenants:
            zone = self.zones[tenant.name] = tenant.timezone or policy.service.timezone
            pooled = zone == policy.service.timezone and policy.service.period == "month"
            for name in (tenant.tier, *tenant.tiers):
                tier = tiers.get(name)
                for objective in () if tier is None else tier.promised:
                    owner = Owner(tenant.name, objective.name)
                    if objective.sli is Sli.RUN and name != tenant.tier:  # runs are judged by its own tier's word
                        continue
                    if tier is not None and owner not in self.by_owner:  # which goes first in all else
                        self.by_owner[owner] = Promised(owner, tenant, tier, objective, zone, pooled)

    def zone(self, tenant: str) -> str:
        """The service's where the policy does not know the tenant (any more)."""
        return self.zones.get(tenant, self.policy.service.timezone)

    def period(self, tenant: str, at: float) -> str:
        """The month at that instant."""
        return period_of(at, self.zone(tenant))

    def bounds(self, tenant: str, period: str) -> tuple[float, float]:
        """The instants at which that month begins and ends."""
        return period_bounds(period, self.zone(tenant))

    def may_fall(self, tenant: Tenant) -> bool:
        """Whether its tier lies above the demotion floor."""
        ranks = {tier.name: tier.rank for tier in self.policy.tiers}
        lowest = max(ranks.values(), default=0)
        floor = ranks.get(self.policy.budget.demotion_floor or "", lowest)
        return ranks.get(tenant.tier, lowest) < floor


def is_month(text: str) -> bool:
    """Whether that names a calendar month as periods do: 2026-11."""
    return _MONTH.fullmatch(text) is not None


def month_after(period: str) -> str:
    """The next calendar month's name."""
    year, month = int(period[:4]), int(period[5:7])
    return f"{year + month // 12:04d}-{month % 12 + 1:02d}"


def month_before(period: str) -> str:
    """The previous calendar month's name."""
    year, month = int(period[:4]), int(period[5:7])
    return f"{year - (month == 1):04d}-{(month - 2) % 12 + 1:02d}"

"""Which budget period a request belongs to: the calendar month of its arrival in its tenant's zone."""

from functools import lru_cache

from plimsoll.policy.policy import Policy
from plimsoll.slo.budget import period_of

QUARTER: int = 900
"""s. Every zone begins its days on a quarter hour of UTC, so one answer holds for a whole one."""


def period_for(arrived_at: float, tenant: str, policy: Policy) -> str:
    """Like "2026-11" for a UTC epoch instant; by the service's zone where the policy does not know the tenant."""
    return _period_of_quarter(int(arrived_at // QUARTER), zone_of(tenant, policy))


def zone_of(tenant: str, policy: Policy) -> str:
    """The zone of the tenant's months; the service's where the policy does not know the tenant."""
    zone = next((known.timezone for known in policy.tenants if known.name == tenant), None)
    return zone or policy.service.timezone


@lru_cache(maxsize=4096)
def _period_of_quarter(quarter: int, zone: str) -> str:
    return period_of(float(quarter * QUARTER), zone)

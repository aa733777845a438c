"""Which budget period a request belongs to: the calendar month of its arrival in its tenant's zone."""

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from plimsoll.policy.policy import Policy


def period_of(arrived_at: float, tenant: str, policy: Policy) -> str:
    """ "2026-11" for a UTC epoch instant; the service's zone where the policy does not know the tenant."""
    zone = next((known.timezone for known in policy.tenants if known.name == tenant), None)
    return month_of(arrived_at, zone or policy.service.timezone)


@lru_cache(maxsize=4096)
def _month(hour: int, zone: str) -> str:
    return f"{datetime.fromtimestamp(hour * 900, ZoneInfo(zone)):%Y-%m}"


def month_of(at: float, zone: str) -> str:
    """The calendar month of a UTC epoch instant in that zone. Zones begin their days on quarter hours of UTC."""
    return _month(int(at // 900), zone)

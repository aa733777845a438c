"""Who is told of budgets that burn or end: the values of the policy's `alerts`."""

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """How urgent an alert is. A channel takes those of its own severity and above."""

    TICKET = "ticket"  # in working hours
    PAGE = "page"  # now


class AlertChannel(Struct, frozen=True):
    """Where alerts go. The environment variable `url_env` holds an address as apprise writes it."""

    name: str
    url_env: str
    severity: Severity = Severity.TICKET


class AlertRules(Struct, frozen=True):
    """Who is told of budgets that burn or end, and how often. No channels: nobody."""

    channels: tuple[AlertChannel, ...] = ()
    repeat_every: float = 86_400.0  # s after which what still holds is told again
    resolve_after: float = 300.0  # s that it must not have held before it is over
    escalate_after: float | None = None  # s after which what still holds is a page
    per_minute: int = 6  # messages to one channel; what is more comes as one

"""Which log a command reads, and which of its requests."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from plimsoll.analytics.gathering import Window
from plimsoll.cli.options import check_tenant
from plimsoll.errors import UnitError, UsageError
from plimsoll.policy.policy import Policy
from plimsoll.units import parse_duration


def data_directory(directory: Path) -> Path:
    """The directory itself, or the `data` below it where only that is one, as the demo leaves it."""
    inner = directory / "data"
    is_outer = not (directory / "plimsoll.json").exists() and (inner / "plimsoll.json").exists()
    return inner if is_outer else directory


def window_of(since: str | None, until: str | None, tenant: str | None, policy: Policy, last: float | None) -> Window:
    """The window that was asked for; `last` is the last arrival in the log."""
    zone = policy.service.timezone
    begin = float("-inf") if since is None else instant(since, zone, last)
    end = float("inf") if until is None else instant(until, zone, last)
    if begin >= end:
        raise UsageError(f"--since {since} is not before --until {until}")
    check_tenant(policy, tenant)
    return Window(begin, end, tenant)


def instant(text: str, zone: str, last: float | None) -> float:
    """UTC epoch s of a date or time (in that zone where it names none), or of so long before the last arrival."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()
    try:
        seconds = parse_duration(text)
    except UnitError:
        raise UsageError(f"{text!r} is no time: write 2026-11-30, 2026-11-30T12:00 or 2h") from None
    return float("-inf") if last is None else last - seconds

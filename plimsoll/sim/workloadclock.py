"""When a workload begins, and instants in it as people say them: "3h", "Tuesday", "Tuesday 09:00"."""

import re
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from plimsoll.errors import UnitError
from plimsoll.policy.section import Section
from plimsoll.sim.tenantprofile import DAY
from plimsoll.units import parse_duration

DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY: Final = re.compile(r"\s*([A-Za-z]+)(?:\s+(\d{1,2}):(\d{2}))?\s*")
_MONDAY: Final = datetime(2026, 1, 5)  # noqa: DTZ001 - the zone is the workload's; a Monday, as `simulation.EPOCH`


class Clock(Struct, frozen=True):
    """`week_at` is s from Monday 00:00 in the workload's zone to its start. Zones are taken not to change within it."""

    week_at: float = 0.0
    start_at: float | None = None  # UTC epoch s; None: not said


def clock_of(top: Section) -> Clock:
    """From the keys `start` (a local date and time) and `timezone`."""
    text, zone = top.text("start"), top.text("timezone", "UTC")
    try:
        place = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        top.fault("timezone", f"{zone!r} is no zone", "as in the tz database: Asia/Shanghai")
        return Clock()
    try:
        moment = datetime.fromisoformat(text) if text else _MONDAY
        moment = moment.astimezone(place) if moment.tzinfo else moment.replace(tzinfo=place)
    except (ValueError, OverflowError):  # an offset can lead out of the years that there are
        top.fault("start", f"{text!r} is no date and time", '"2026-01-05T00:00"')
        return Clock()
    local = moment.replace(tzinfo=None)
    monday = datetime(local.year, local.month, local.day) - timedelta(days=local.weekday())  # noqa: DTZ001 - local
    week_at = (local - monday).total_seconds()
    return Clock(week_at) if not text and zone == "UTC" else Clock(week_at, moment.timestamp())


def instant(section: Section, key: str, clock: Clock, default: float) -> float:
    """s from the workload's start: a duration, or the first such day (and time) from then on."""
    if not section.is_text(key):
        return section.duration(key, default, zero=True)
    text = section.text(key, "") or ""
    match = _WEEKDAY.fullmatch(text)
    if match is None:
        return _duration(section, key, text, default)
    names = [day for day in DAYS if len(match[1]) >= 3 and day.startswith(match[1].lower())]
    hour, minute = int(match[2] or 0), int(match[3] or 0)
    if len(names) != 1 or hour > 23 or minute > 59:
        section.fault(key, f"{text!r} is no instant", "3h, Tuesday or Tuesday 09:00")
        return default
    wanted = DAYS.index(names[0]) * DAY + hour * 3600.0 + minute * 60.0
    return (wanted - clock.week_at) % (7 * DAY)


def _duration(section: Section, key: str, text: str, default: float) -> float:
    try:
        seconds = parse_duration(text)
    except UnitError:
        section.fault(key, f"{text!r} is no instant", "3h, Tuesday or Tuesday 09:00")
        return default
    if seconds < 0:
        section.fault(key, "must be at least 0s")
        return default
    return seconds

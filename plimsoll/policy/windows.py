"""Reads spans of time as other tools write them: "28d", "4w", "1M", {count: 30, unit: Day}, "Week"."""

import re
from typing import Final

from msgspec.structs import replace

from plimsoll.policy.foreign import Value
from plimsoll.policy.slospec import Window

_SHORTHAND: Final = re.compile(r"([1-9][0-9]{0,5})([mhdwMQY])")
_WORDS: Final = {"Minute": "m", "Hour": "h", "Day": "d", "Week": "w", "Month": "M", "Quarter": "Q", "Year": "Y"}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}")
_WEEKDAYS: Final = {
    day: f"2024-01-0{i + 1} 00:00:00"  # 1 January 2024 was a Monday
    for i, day in enumerate(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))
}


def shorthand(value: Value) -> Window | None:
    """OpenSLO's duration shorthand, `[1-9][0-9]*[mhdwMQY]`; a fault where it is another text."""
    text = value.scalar()
    if text is None:
        return None
    if text in _WORDS:
        value.warn(f"{text!r} is no duration of OpenSLO: taken as 1{_WORDS[text]}")
        return Window(1, _WORDS[text])
    match = _SHORTHAND.fullmatch(text)
    if match is None:
        value.fault(f"{text[:40]!r} is no duration", "a number and one of m, h, d, w, M, Q, Y, for example 28d")
        return None
    return Window(int(match[1]), match[2])


def read_window(spec: Value, key: str) -> Window | None:
    """`timeWindow` of OpenSLO v1 or `timeWindows` of v1alpha: a list of one, with its duration in either form."""
    window = None
    for i, item in enumerate(spec.items(key)):
        if i > 0:
            item.fault("a second window: one is allowed")
        elif item.is_mapping:
            window = _read_one(item)
        else:
            item.fault("must be a section of keys")
    return window


def _read_one(item: Value) -> Window | None:
    length = _read_length(item)
    rolling = item.flag("isRolling")
    calendar = item.mapping("calendar")
    if rolling is None:
        rolling = calendar is None
    if length is None:
        if calendar is not None:
            calendar.plain()
        return None
    if rolling:
        if calendar is not None:
            calendar.lose("a rolling window has no calendar")
        return length
    if calendar is None:
        item.fault("a window that does not roll needs a calendar")
        return None
    return replace(
        length, rolling=False, start=_read_start(calendar), timezone=calendar.text("timeZone", required=True)
    )


def _read_length(item: Value) -> Window | None:
    if "unit" not in item and "count" not in item:
        duration = item.need("duration")
        return None if duration is None else shorthand(duration)
    unit = item.choice("unit", tuple(_WORDS), required=True)
    count = item.number("count", required=True)
    if not unit or count is None:
        return None
    if count.denominator != 1 or count < 1:
        item.account.fault(f"{item.path}.count", item.line, "must be a whole number above 0")
        return None
    return Window(int(count), _WORDS[unit])


def _read_start(calendar: Value) -> str:
    start = calendar.text("startTime", required=True)
    place = calendar.get("startTime")
    if place is None or not start:
        return ""
    if start in _WEEKDAYS:
        place.warn(f"{start!r} is no date: taken as {_WEEKDAYS[start]}, which was one")
        return _WEEKDAYS[start]
    if not _DATE.fullmatch(start):
        place.fault(f"{start[:40]!r} is no date with time", "for example 2022-01-01 12:00:00")
    return start

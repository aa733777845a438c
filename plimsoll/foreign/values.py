"""What a cell of somebody else's log means: instants, durations, counts, flags, whatever unit they are written in.

An empty cell, "-", "null" and the like are unknown (None), never zero; what cannot be read raises ValueError.
"""

from datetime import UTC, datetime
from math import isfinite
from typing import Final

UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""What a number may be written in."""
_EMPTY: Final = frozenset({"", "-", "null", "none", "nan", "n/a", "na", "\\n", "not set"})
_YES: Final = frozenset({"true", "1", "yes", "t", "stream", "streaming"})
_NO: Final = frozenset({"false", "0", "no", "f"})
_SUFFIXES: Final = (
    ("_ms", "ms"), ("_millis", "ms"), ("_milliseconds", "ms"), ("_ns", "ns"), ("_nano", "ns"), ("_us", "us"),
    ("_s", "s"), ("_sec", "s"), ("_secs", "s"), ("_seconds", "s"),
)  # fmt: skip
_EPOCHS: Final = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""A number from there on counts from 1970 in that unit; below all of them in seconds."""


def is_empty(cell: object) -> bool:
    """Whether a cell says nothing."""
    if isinstance(cell, str):
        return len(cell) < 8 and cell.strip().lower() in _EMPTY
    return cell is None


def unit_of(key: str) -> str:
    """The unit that the name of a column tells; "" where it tells none."""
    lowered = key.lower()
    return next((unit for suffix, unit in _SUFFIXES if lowered.endswith(suffix)), "")


def number(cell: object, key: str) -> float | None:
    """A finite number; None where the cell is empty."""
    kind = type(cell)
    if kind is float or kind is int:
        value = float(cell)  # type: ignore[arg-type]
    elif is_empty(cell):
        return None
    else:
        try:
            value = float(str(cell))
        except ValueError:
            raise ValueError(f"{key} is not a number") from None
    if not isfinite(value):
        raise ValueError(f"{key} is not a finite number")
    return value


def duration(cell: object, key: str, unit: str) -> float | None:
    """Seconds, at least 0."""
    value = number(cell, key)
    if value is None:
        return None
    if value < 0.0:
        raise ValueError(f"{key} is negative")
    return value * UNITS[unit or "s"]


def count(cell: object, key: str) -> int | None:
    """A whole number, at least 0."""
    value = number(cell, key)
    if value is None:
        return None
    if value < 0.0 or value != int(value):
        raise ValueError(f"{key} is no count")
    return int(value)


def instant(cell: object, key: str, unit: str) -> float | None:
    """UTC epoch s (or s from the log's own start), of a date and time or a number in any unit."""
    if isinstance(cell, datetime):
        return (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp()
    if is_empty(cell):
        return None
    try:
        value = number(cell, key)
    except ValueError:
        return _date(str(cell), key)
    if value is None:
        return None
    if unit:
        return value * UNITS[unit]
    return value * next((scale for least, scale in _EPOCHS if value >= least), 1.0)


def _date(text: str, key: str) -> float:
    try:
        moment = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
    except ValueError:
        raise ValueError(f"{key} is no instant") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def flag(cell: object, key: str) -> bool | None:
    """Yes or no."""
    if isinstance(cell, bool):
        return cell
    if is_empty(cell):
        return None
    word = str(cell).strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise ValueError(f"{key} is neither yes nor no")


def text(cell: object) -> str:
    """A short text; "" where the cell is empty or holds more than a name (a list, an object)."""
    if is_empty(cell) or isinstance(cell, list | dict):
        return ""
    return str(cell).strip()[:256]

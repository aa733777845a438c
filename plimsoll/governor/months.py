"""The calendar month of an instant in a time zone, remembered between its ends."""

from datetime import datetime
from zoneinfo import ZoneInfo


class Month:
    """Names months of one zone: `2026-11`."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)
        self._name = ""
        self._from_at = 0.0
        self._until_at = 0.0

    def of(self, at: float) -> str:
        """The month in which that UTC epoch second lies."""
        if not self._from_at <= at < self._until_at:
            start = datetime.fromtimestamp(at, self._zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            following = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
            self._name = f"{start.year:04d}-{start.month:02d}"
            self._from_at, self._until_at = start.timestamp(), following.timestamp()
        return self._name

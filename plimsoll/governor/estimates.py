"""Running estimates in constant time: quantiles of a stream, and how fast something drains.

They answer "not known" (None) until they have seen enough: unknown is not zero.
"""

from math import log
from typing import Final

_PER_OCTAVE: Final = 32  # gamma = 2^(1/32), the project's one bucket width
_PER_E: Final = 46.16624130844683  # 32 / ln 2
_OFFSET: Final = 448  # bucket of 1.0: 14 octaves below it (61 µs) …
_NUM_BUCKETS: Final = 1280  # … and 26 above
_SMALLEST: Final = 6.2e-05
_UPPER: Final = [2.0 ** ((bucket + 1 - _OFFSET) / _PER_OCTAVE) for bucket in range(_NUM_BUCKETS)]
_MIDDLE: Final = [2.0 ** ((bucket + 0.5 - _OFFSET) / _PER_OCTAVE) for bucket in range(_NUM_BUCKETS)]


class Histogram:
    """Counts of positive numbers in log buckets over the last `num_windows` windows; cursors follow their quantiles.

    `roll` ends a window: by the caller's clock, or by itself after `window` numbers where that is not 0.
    """

    def __init__(self, at_least: int, window: int = 0, num_windows: int = 3) -> None:
        self.num = 0
        self.at_least = at_least
        self._window = window
        self._num_windows = num_windows
        self.counts: list[int] = [0] * _NUM_BUCKETS
        self._older: list[dict[int, int]] = []  # ended windows; whatever else is counted came since
        self._in_window = 0
        self._cursors: list[Cursor] = []

    def follow(self, numerator: int, denominator: int) -> "Cursor":
        """A cursor on the quantile numerator ÷ denominator; ask for it before the first number."""
        cursor = Cursor(self, numerator, denominator)
        self._cursors.append(cursor)
        return cursor

    def add(self, value: float) -> None:
        """Take one number; what is not positive counts as the smallest."""
        index = bucket_of(value)
        self.counts[index] += 1
        self.num += 1
        for cursor in self._cursors:
            cursor.moved(index, 1)
        self._in_window += 1
        if self._in_window == self._window:
            self.roll()

    def add_many(self, value: float, num: int) -> None:
        """The same number so often; for histograms whose windows end by the caller's clock."""
        index = bucket_of(value)
        self.counts[index] += num
        self.num += num
        for cursor in self._cursors:
            cursor.moved(index, num)

    def roll(self) -> None:
        """End the window; what is older than `num_windows` is forgotten."""
        self._older.append(self._of_this_window())
        self._in_window = 0
        if len(self._older) < self._num_windows:
            return
        for index, num in self._older.pop(0).items():
            self.counts[index] -= num
            self.num -= num
            for cursor in self._cursors:
                cursor.moved(index, -num)

    def _of_this_window(self) -> dict[int, int]:
        left = {index: num for index, num in enumerate(self.counts) if num}
        for window in self._older:
            for index, num in window.items():
                left[index] -= num
        return {index: num for index, num in left.items() if num}


class Cursor:
    """Stands on the bucket that holds a quantile and moves as numbers come and go."""

    def __init__(self, histogram: Histogram, numerator: int, denominator: int) -> None:
        self._histogram = histogram
        self._numerator = numerator
        self._denominator = denominator
        self._bucket = 0
        self._below = 0  # numbers in lower buckets
        self._upper = 0.0
        self._middle = 0.0

    def upper(self) -> float | None:
        """The upper edge of the quantile's bucket: at most 2.2 % above the true one. None: too few numbers."""
        return self._upper if self._histogram.num >= self._histogram.at_least else None

    def middle(self) -> float | None:
        """The middle of the quantile's bucket: within 1.1 % of the true one. None: too few numbers."""
        return self._middle if self._histogram.num >= self._histogram.at_least else None

    def moved(self, index: int, num: int) -> None:
        """So many numbers came (or went, negative) in that bucket; the histogram has counted them already."""
        if index < self._bucket:
            self._below += num
        total = self._histogram.num
        if total == 0:
            self._bucket = self._below = 0
            return
        counts = self._histogram.counts
        before = self._bucket
        rank = (total * self._numerator + self._denominator - 1) // self._denominator
        while self._below >= rank:
            self._bucket -= 1
            self._below -= counts[self._bucket]
        while self._below + counts[self._bucket] < rank:
            self._below += counts[self._bucket]
            self._bucket += 1
        if self._bucket != before or self._upper == 0.0:
            self._upper = _UPPER[self._bucket]
            self._middle = _MIDDLE[self._bucket]


def bucket_of(value: float) -> int:
    """The log bucket of a number, as an index from 0."""
    if value <= _SMALLEST:
        return 0
    return min(int(log(value) * _PER_E + _OFFSET), _NUM_BUCKETS - 1)


class DrainRate:
    """How often something leaves, as an exponentially weighted mean of the gaps between departures."""

    def __init__(self) -> None:
        self._gap = 0.0  # s; 0: fewer than two departures seen
        self._last_at = 0.0  # 0: none seen

    def departed(self, at: float) -> None:
        """One left."""
        if self._last_at > 0.0:
            gap = at - self._last_at
            self._gap = gap if self._gap == 0.0 else self._gap + (gap - self._gap) / 16.0
        self._last_at = at

    def gap(self, at: float) -> float | None:
        """Expected seconds between departures; a silence longer than that counts. None: not known."""
        if self._gap == 0.0:
            return None
        return max(self._gap, at - self._last_at)

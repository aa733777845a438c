"""Running estimates in constant time: a quantile of a stream, and how fast something drains.

Both answer "not known" (None) until they have seen enough: unknown is not zero.
"""

from math import log2
from typing import Final

_PER_OCTAVE: Final = 32  # gamma = 2^(1/32), the project's one bucket width
_LOWEST: Final = -14  # octaves covered: 2^-14 (61 µs) …
_NUM_BUCKETS: Final = 40 * _PER_OCTAVE  # … to 2^26


class RunningQuantile:
    """The q-quantile of positive numbers over the last `num_windows` windows, kept at hand in O(1).

    A cursor stands on the bucket that holds the quantile and moves as numbers come and go. `roll` ends a window:
    by the caller's clock, or by itself after `window` numbers where that is not 0.
    """

    def __init__(self, numerator: int, denominator: int, at_least: int, window: int = 0, num_windows: int = 3) -> None:
        self._numerator = numerator
        self._denominator = denominator
        self._at_least = at_least
        self._window = window
        self._num_windows = num_windows
        self._counts: list[int] = [0] * _NUM_BUCKETS
        self._windows: list[dict[int, int]] = [{}]
        self._in_window = 0
        self._cursor = 0
        self._below = 0  # numbers in buckets below the cursor
        self.num = 0

    def add(self, value: float) -> None:
        """Take one number; what is not positive counts as the smallest."""
        index = _bucket(value)
        current = self._windows[-1]
        current[index] = current.get(index, 0) + 1
        self._counts[index] += 1
        self.num += 1
        if index < self._cursor:
            self._below += 1
        self._move_cursor()
        self._in_window += 1
        if self._in_window == self._window:
            self.roll()

    def roll(self) -> None:
        """End the window; the oldest beyond `num_windows` is forgotten."""
        self._windows.append({})
        self._in_window = 0
        if len(self._windows) > self._num_windows:
            for index, num in self._windows.pop(0).items():
                self._counts[index] -= num
                self.num -= num
                if index < self._cursor:
                    self._below -= num
            self._move_cursor()

    def upper(self) -> float | None:
        """The upper edge of the quantile's bucket: at most 2.2 % above the true one. None: too few numbers."""
        if self.num < self._at_least:
            return None
        return float(2.0 ** ((self._cursor + 1) / _PER_OCTAVE + _LOWEST))

    def middle(self) -> float | None:
        """The middle of the quantile's bucket: within 1.1 % of the true one. None: too few numbers."""
        if self.num < self._at_least:
            return None
        return float(2.0 ** ((self._cursor + 0.5) / _PER_OCTAVE + _LOWEST))

    def _move_cursor(self) -> None:
        if self.num == 0:
            self._cursor = self._below = 0
            return
        rank = max(1, -(-self.num * self._numerator // self._denominator))
        counts = self._counts
        while self._below >= rank:
            self._cursor -= 1
            self._below -= counts[self._cursor]
        while self._below + counts[self._cursor] < rank:
            self._below += counts[self._cursor]
            self._cursor += 1


def _bucket(value: float) -> int:
    if value <= 0.0:
        return 0
    index = int((log2(value) - _LOWEST) * _PER_OCTAVE)
    return min(max(index, 0), _NUM_BUCKETS - 1)


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


class PromiseLine:
    """Retry instants handed out one behind the other, so that clients who obey them do not meet again."""

    def __init__(self) -> None:
        self._last_at = 0.0

    def promise(self, at: float, wait: float, spacing: float) -> float:
        """Seconds from `at`: after `wait`, and `spacing` behind the promise before."""
        slot_at = max(at + wait, self._last_at + spacing)
        self._last_at = slot_at
        return slot_at - at

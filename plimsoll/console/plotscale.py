"""Axes of charts: values to positions, round values between, and what they are called."""

from math import ceil, floor, log10

from plimsoll.units import format_count, format_duration


def value_text(value: float, unit: str) -> str:
    """A value of an axis, with its unit where that is short."""
    if unit == "s":
        return format_duration(value) if value else "0"
    if unit == "%":
        return f"{value * 100:.3g}%"
    if unit == "×":
        return f"{value:.3g}×"
    return format_count(value, 3) if value >= 1000 else f"{value:.3g}"


class Scale:
    """Values to positions, linear from 0 or logarithmic."""

    def __init__(self, low: float, high: float, ends: tuple[float, float], *, log: bool) -> None:
        self.log = log
        self._from, self._to = ends
        if log:
            self.low, self.high = floor(log10(low) * 3) / 3, ceil(log10(high) * 3 + 1e-9) / 3
            if self.high - self.low < 0.5:
                self.low -= 1 / 3
        else:
            self.low, self.high = low, high if high > low else low + 1.0

    def at(self, value: float) -> float:
        """Where that value lies."""
        number = log10(max(value, 10**self.low)) if self.log else value
        part = (number - self.low) / (self.high - self.low)
        return self._from + min(1.0, max(0.0, part)) * (self._to - self._from)

    def ticks(self, few: float = 2.0) -> list[float]:
        """Round values, three to six of them; 1, 2 and 5 of each decade where there are fewer decades than `few`."""
        if self.log:
            steps = (1, 2, 5) if self.high - self.low < few else (1,)
            decades = range(floor(self.low), ceil(self.high) + 1)
            found = [step * 10.0**decade for decade in decades for step in steps]
            return [tick for tick in found if self.low - 1e-9 <= log10(tick) <= self.high + 1e-9]
        step = _round_step((self.high - self.low) / 4)
        first = ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, floor(self.high / step + 1e-9) + 1)]


def _round_step(rough: float) -> float:
    power = 10.0 ** floor(log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * (1 - 1e-9))

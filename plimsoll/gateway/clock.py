"""The one clock of the live gateway."""

import time
from collections.abc import Callable
from typing import Final

STEP: Final = 2.0  # s by which the time of day must have left ours before that is told


def wall_clock(
    time_of_day: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """UTC epoch seconds that never step back: the time of day now, and from here on the monotonic clock.

    Durations and timers are right whatever becomes of the time of day; instants go on by that of the start, which is
    what `ClockWatch` watches.
    """
    offset = time_of_day() - monotonic()

    def clock() -> float:
        return monotonic() + offset

    return clock


class ClockWatch:
    """Says how far the time of day has left our clock: somebody set it, or the machine slept."""

    def __init__(self, clock: Callable[[], float], time_of_day: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._time_of_day = time_of_day
        self._told = 0.0

    def ahead(self) -> float:
        """Seconds that the time of day is ahead of our clock; below zero: behind."""
        return self._time_of_day() - self._clock()

    def step(self) -> float | None:
        """The same where it has changed by STEP or more since it was last told; None: nothing new."""
        ahead = self.ahead()
        if abs(ahead - self._told) < STEP:
            return None
        self._told = ahead
        return ahead

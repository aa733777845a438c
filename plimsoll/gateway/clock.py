"""The one clock of the live gateway."""

import time
from collections.abc import Callable


def wall_clock() -> Callable[[], float]:
    """UTC epoch seconds that never step back: the time of day now, and from here on the monotonic clock."""
    monotonic = time.monotonic
    offset = time.time() - monotonic()

    def clock() -> float:
        return monotonic() + offset

    return clock

"""Which replicas are less steady than the others of their pool: one rule for those who act and who show.

Measured over a week are the share of gaps between two tokens of a stream that were longer than half a second, and how
much the speed of a stream varies between hours of like load.
"""

from collections.abc import Sequence
from typing import Final

STALL: Final = 0.5  # s between two tokens of a stream, above which the gap is a stall
LEAST: Final = 0.005  # share of stalls up to which nobody is called unsteady, whatever the others do
TIMES: Final = 3.0  # as many stalls as the pool's median replica has: beyond that a replica is unsteady
LEAST_VARIATION: Final = 0.25  # standard deviation ÷ mean, the same for speed …
TIMES_VARIATION: Final = 2.0
RELEASE: Final = 0.7  # of that bound: one that was unsteady is so until it is below


def bound(ratios: Sequence[float], least: float = LEAST, times: float = TIMES) -> float | None:
    """The share of stalls (or variation) beyond which a replica is unsteady; None where fewer than two are known.

    The lower median is taken, so at least half of the pool's replicas are steady by it whatever happens.
    """
    if len(ratios) < 2:
        return None
    return max(least, times * sorted(ratios)[(len(ratios) - 1) // 2])


def variation_bound(variations: Sequence[float]) -> float | None:
    """The same for variations of speed."""
    return bound(variations, LEAST_VARIATION, TIMES_VARIATION)


def is_unsteady(ratio: float | None, most: float | None, *, before: bool = False) -> bool:
    """Whether that replica is; where nothing is known of it, or too little of the others, it is not."""
    if ratio is None or most is None:
        return False
    return ratio > (RELEASE * most if before else most)

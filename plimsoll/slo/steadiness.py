"""Which replicas stall much more often than the others of their pool: one rule for those who act and who show.

Measured is the share of gaps between two tokens of a stream that were longer than half a second, over a week.
"""

from collections.abc import Sequence
from typing import Final

STALL: Final = 0.5  # s between two tokens of a stream, above which the gap is a stall
LEAST: Final = 0.005  # share of stalls up to which nobody is called unsteady, whatever the others do
TIMES: Final = 3.0  # as many stalls as the pool's median replica has: beyond that a replica is unsteady
RELEASE: Final = 0.7  # of that bound: one that was unsteady is so until it is below


def bound(ratios: Sequence[float]) -> float | None:
    """The share of stalls beyond which a replica is unsteady; None where fewer than two are known.

    The lower median is taken, so at least half of the pool's replicas are steady whatever happens.
    """
    if len(ratios) < 2:
        return None
    return max(LEAST, TIMES * sorted(ratios)[(len(ratios) - 1) // 2])


def is_unsteady(ratio: float | None, most: float | None, *, before: bool = False) -> bool:
    """Whether that replica is; where nothing is known of it, or too little of the others, it is not."""
    if ratio is None or most is None:
        return False
    return ratio > (RELEASE * most if before else most)

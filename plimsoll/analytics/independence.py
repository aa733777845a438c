"""What autocorrelated values are worth: requests that arrive together are slow together.

An interval from order statistics takes values to be independent. The share above a threshold in blocks of time says by
how much they are not: its variance over that of independent values is the design effect, the limit to which a
bootstrap over those blocks converges.
"""

from collections.abc import Sequence
from typing import Final

MIN_BLOCKS: Final = 10
"""Fewer say nothing of a variance."""


def design_effect(blocks: Sequence[tuple[int, int]]) -> float | None:
    """From (values, of these above the threshold) of consecutive blocks; at least 1, None where they are too few."""
    held = [(num, above) for num, above in blocks if num]
    total, above = sum(num for num, _ in held), sum(above for _, above in held)
    if len(held) < MIN_BLOCKS or above in {0, total}:
        return None
    ratio = above / total
    spread = sum((above_here - num * ratio) ** 2 for num, above_here in held) * len(held) / (len(held) - 1)
    return max(1.0, spread / (total * ratio * (1.0 - ratio)))

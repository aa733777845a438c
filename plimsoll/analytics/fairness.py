"""Who got how much of what is shared."""

from collections.abc import Iterable
from typing import Final

from plimsoll.analytics.tally import Tally

OUTPUT_WEIGHT: Final = 2
"""An output token costs as much as two of input: the weights of the virtual token counters."""


def jain(amounts: Iterable[float]) -> float | None:
    """(Σx)² ÷ (n Σx²): 1 where all have the same, 1 ÷ n where one has all; None of nobody or of nothing.

    Source: Jain, Chiu and Hawe 1984.
    """
    shares = [float(amount) for amount in amounts]
    if any(share < 0 for share in shares):
        raise ValueError("amounts must be at least 0")
    top = max(shares, default=0.0)
    if top == 0.0:
        return None
    scaled = [share / top for share in shares]  # so that nothing overflows
    return sum(scaled) ** 2 / (len(scaled) * sum(share * share for share in scaled))


def service(tally: Tally) -> int:
    """Tokens served, weighted by what they cost."""
    return tally.prompt_tokens + OUTPUT_WEIGHT * tally.output_tokens

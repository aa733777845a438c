"""What the hands measured of one request's tokens: values only, `timing.py` makes them."""

from typing import Final

from msgspec import Struct


class TokenRun(Struct, frozen=True, array_like=True, gc=False):
    """`num` gaps in arithmetic progression, in s: a simulator's jump over as many decode steps.

    The gaps are first_gap, first_gap + increment, …; the first ends at start_at + first_gap.
    """

    start_at: float
    first_gap: float
    increment: float
    num: int


class ItlSketch(Struct, frozen=True, array_like=True):
    """Gaps of one position class as a sparse sketch: counts by log bucket (`slo/quantiles`), zeros apart."""

    num_zero: int = 0
    buckets: dict[int, int] = {}  # bucket index (gamma = 2^(1/32)) -> count


UNCOUNTED: Final = (ItlSketch(), ItlSketch(), ItlSketch())
"""Of a simulated answer whose gaps nobody sorted by length, since nobody looks at that; known by identity."""


class Timing(Struct, frozen=True, array_like=True):
    """What is known of a request's tokens when it ends. Instants in s on the hands' clock; 0.0 = did not happen."""

    first_token_at: float = 0.0
    last_token_at: float = 0.0
    num_tokens: int = 0  # output tokens counted (usage's figure where it came)
    itl_max: float = 0.0
    sketches: tuple[ItlSketch, ItlSketch, ItlSketch] = (
        ItlSketch(),
        ItlSketch(),
        ItlSketch(),
    )  # tokens ≤128, ≤1024, beyond
    itl_bad: tuple[int, ...] = ()  # per ITL threshold given at the start: gaps above it
    client_stall: float = 0.0  # s during which the client held us back
    num_gaps: int = 0  # gaps in the sketches, zeros included; 0 where they were not counted beside
    stall_before: float = 0.0  # s of the client stall that fell before the first token
    stall_between: float = 0.0  # s of it that fell between first and last token

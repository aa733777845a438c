"""A figure with its error bar: over seeds by Student's t, or as one run bounds it itself."""

from collections.abc import Sequence
from math import sqrt
from typing import Final

from msgspec import Struct

_T95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, two-sided 95 %, for 1 to 30 degrees of freedom."""


class Estimate(Struct, frozen=True):
    """A figure over seeds. `low` and `high` bound its mean at 95 %; with one seed, as the report bounds it itself."""

    mean: float | None
    low: float | None
    high: float | None
    values: tuple[float | None, ...]  # by seed
    num: int | None = None  # of what it is made of, all seeds: values of a quantile, judged events of a ratio


def student(degrees: int) -> float:
    """Two-sided 95 %; beyond the table Cornish and Fisher's expansion (1937), good to three digits there."""
    if degrees <= len(_T95):
        return _T95[degrees - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def estimate(values: Sequence[float | None], num: int | None = None) -> Estimate:
    """Mean and its 95 % interval by Student's t; None where a seed has no figure."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Estimate(None, None, None, tuple(values), num)
    mean = sum(known) / len(known)
    if len(known) == 1:
        return Estimate(mean, None, None, tuple(values), num)
    spread = sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1) / len(known))
    width = spread * student(len(known) - 1)
    return Estimate(mean, mean - width, mean + width, tuple(values), num)

"""A figure with its error bar: over seeds by Student's t, or as one run bounds it itself."""

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from plimsoll.slo.student import student


class Estimate(Struct, frozen=True):
    """A figure over seeds. `low` and `high` bound its mean at 95 %; with one seed, as the report bounds it itself."""

    mean: float | None
    low: float | None
    high: float | None
    values: tuple[float | None, ...]  # by seed
    num: int | None = None  # of what it is made of, all seeds: values of a quantile, judged events of a ratio


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

"""Two runs (or logs) side by side: is B better than A, and how sure is that?

Where the same seeds were run on both sides their figures are compared pair by pair, which takes the luck out of the
difference (Student's t on the differences). Otherwise two samples of seeds by Welch's t; and where a side has one run
only, a bootstrap over blocks of time, the same blocks drawn on both sides where both saw the same arrivals.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isfinite, sqrt

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.slo.student import student


class Method(StrEnum):
    """How a difference was tested."""

    PAIRED_SEEDS = "paired seeds"
    SEEDS = "seeds"
    PAIRED_BLOCKS = "paired blocks"
    BLOCKS = "blocks"


class Word(StrEnum):
    """What may be said of it at 95 %."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # equal on both sides, in every pair
    NOT_SHOWN = "no difference shown"
    UNKNOWN = "not enough data"


class Difference(Struct, frozen=True):
    """One figure of one group. `low` and `high` bound B − A at 95 %."""

    kind: str
    name: str
    tier: str
    figure: str
    a: float | None
    b: float | None
    delta: float | None
    low: float | None
    high: float | None
    word: Word


class Comparison(Struct, frozen=True):
    """All differences, and how they were tested."""

    a: str
    b: str
    method: Method
    seeds: tuple[int, ...]  # pairs; () where there are none
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


def is_better_high(figure: str) -> bool:
    """Whether more of a figure is better: of ratios kept it is, of times and spent budgets less is."""
    return figure.startswith(("goodput", "attainment"))


def paired(a: Sequence[float | None], b: Sequence[float | None]) -> tuple[float | None, float | None]:
    """95 % bounds of the mean of B − A over pairs; None where any figure is missing or there is one pair."""
    differences = [y - x for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    if len(differences) < 2 or len(differences) < len(a):
        return None, None
    mean = sum(differences) / len(differences)
    spread = sqrt(sum((each - mean) ** 2 for each in differences) / (len(differences) - 1) / len(differences))
    width = student(len(differences) - 1) * spread
    return mean - width, mean + width


def welch(a: Sequence[float | None], b: Sequence[float | None]) -> tuple[float | None, float | None]:
    """95 % bounds of the difference of two means of samples that have nothing to do with one another (Welch 1947)."""
    if min(len(a), len(b)) < 2 or any(value is None for value in (*a, *b)):
        return None, None
    means, parts = [], []
    for sample in (a, b):
        known = [value for value in sample if value is not None]
        mean = sum(known) / len(known)
        means.append(mean)
        parts.append((sum((value - mean) ** 2 for value in known) / (len(known) - 1) / len(known), len(known) - 1))
    total = sum(part for part, _ in parts)
    if total == 0.0:
        return means[1] - means[0], means[1] - means[0]
    degrees = total**2 / sum(part**2 / num for part, num in parts)
    width = student(max(1, int(degrees))) * sqrt(total)
    return means[1] - means[0] - width, means[1] - means[0] + width


def by_seeds(
    key: tuple[str, str, str],
    figure: str,
    a: Mapping[int, float | None],
    b: Mapping[int, float | None],
    pairs: Sequence[int],
) -> Difference:
    """From figures by seed; `pairs` are the seeds to be compared pair by pair, none: two samples."""
    xs = [a.get(seed) for seed in pairs] if pairs else list(a.values())
    ys = [b.get(seed) for seed in pairs] if pairs else list(b.values())
    low, high = paired(xs, ys) if pairs else welch(xs, ys)
    return _difference((*key, figure), _mean(xs), _mean(ys), low, high)


def by_draws(
    key: tuple[str, str, str],
    figure: str,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
) -> Difference:
    """From a bootstrap: the first of each is the figure itself, the others are of drawings that belong together."""
    x, y = (float(values[0]) if isfinite(values[0]) else None for values in (a, b))
    with np.errstate(invalid="ignore"):
        differences = b[1:] - a[1:]
    if x is None or y is None or len(differences) < 2 or not np.isfinite(differences).all():
        return _difference((*key, figure), x, y, None, None)
    low, high = np.quantile(differences, [0.025, 0.975])
    return _difference((*key, figure), x, y, float(low), float(high))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _difference(
    key: tuple[str, str, str, str], a: float | None, b: float | None, low: float | None, high: float | None
) -> Difference:
    delta = b - a if a is not None and b is not None else None
    return Difference(*key, a, b, delta, low, high, _word(key[3], delta, low, high))


def _word(figure: str, delta: float | None, low: float | None, high: float | None) -> Word:
    if delta is None or low is None or high is None:
        return Word.UNKNOWN
    if low == high == 0.0:
        return Word.SAME
    if low <= 0.0 <= high:
        return Word.NOT_SHOWN
    return Word.BETTER if (low > 0.0) == is_better_high(figure) else Word.WORSE

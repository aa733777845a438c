"""In which order rivals come out, where that can be told, and whether two worlds agree on it. Pure."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from math import ceil, inf
from statistics import median
from typing import Final

from msgspec import Struct

from plimsoll.slo.quantiles import interval_ranks

QUANTILE: Final = 0.99
HOLDS: Final = 0.15  # of the simulated P99, that the live one may be off


class P99(Struct, frozen=True):
    """A P99 of times in s, with its 95 % interval from order statistics of requests taken as independent.

    `inf`: so many got no first token that there is no bound.
    """

    value: float
    low: float
    high: float
    num: int
    lost: int = 0  # without a first token


def p99_of(times: Sequence[float]) -> P99:
    """Of times, inf where nothing came. Raises ValueError where there are none."""
    if not times:
        raise ValueError("no times, no P99")
    ordered = sorted(times)
    num = len(ordered)
    low, high = interval_ranks(num, QUANTILE)
    return P99(
        value=ordered[ceil(QUANTILE * num - 1e-9) - 1],
        low=ordered[low - 1] if low >= 1 else 0.0,
        high=ordered[high - 1] if high <= num else inf,
        num=num,
        lost=sum(time == inf for time in ordered),
    )


def together(found: Sequence[P99]) -> P99:
    """Of runs that differ in nothing that anybody could know: the median, from the lowest bound to the highest."""
    return P99(
        value=median(each.value for each in found),
        low=min(each.low for each in found),
        high=max(each.high for each in found),
        num=found[0].num,
        lost=max(each.lost for each in found),
    )


def compare(one: P99, other: P99) -> int:
    """-1: one is lower, 1: it is higher, 0: their intervals overlap, which is a tie."""
    if one.high < other.low:
        return -1
    return 1 if one.low > other.high else 0


class Agreement(Struct, frozen=True):
    """Of all pairs of rivals: those ordered alike in both worlds, the other way round, and tied in either."""

    alike: int
    against: tuple[tuple[str, str], ...]
    tied: int
    spearman: float | None  # of the values as they are, ties or not; None: fewer than two rivals

    @property
    def same(self) -> bool | None:
        """Whether no pair that both worlds tell apart is ordered the other way; None where no pair is."""
        if not self.alike and not self.against:
            return None
        return not self.against


def agreement(one: Mapping[str, P99], other: Mapping[str, P99]) -> Agreement:
    """Of the rivals that both worlds know."""
    names = [name for name in one if name in other]
    alike = tied = 0
    against: list[tuple[str, str]] = []
    for a, b in combinations(names, 2):
        here, there = compare(one[a], one[b]), compare(other[a], other[b])
        if not here or not there:
            tied += 1
        elif here == there:
            alike += 1
        else:
            against.append((a, b))
    values = ([one[name].value for name in names], [other[name].value for name in names])
    return Agreement(alike, tuple(against), tied, _correlation(*map(ranks, values)))


def order(found: Mapping[str, P99]) -> str:
    """From the lowest to the highest; `=` between neighbours whose intervals overlap."""
    names = sorted(found, key=lambda name: found[name].value)
    told = names[:1]
    for before, name in pairwise(names):
        told.append("<" if compare(found[before], found[name]) else "=")
        told.append(name)
    return " ".join(told)


def ranks(values: Sequence[float]) -> list[float]:
    """From 1 on; equal values share the mean of their ranks."""
    return [sum(v < value for v in values) + (sum(v == value for v in values) + 1) / 2 for value in values]


def _correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Pearson's of two lists of ranks, which is Spearman's of the values; None where a list does not vary."""
    if len(one) < 2:
        return None
    middle = (len(one) + 1) / 2
    across = sum((a - middle) * (b - middle) for a, b in zip(one, other, strict=True))
    spread = sum((a - middle) ** 2 for a in one) * sum((b - middle) ** 2 for b in other)
    return across / spread**0.5 if spread else None


def ratio(over: float, under: float) -> float | None:
    """None where either has no bound."""
    return None if inf in {over, under} or under <= 0.0 else over / under


def holds(live: float, simulated: float) -> bool | None:
    """Whether a simulated P99 holds within 15 % live; None where neither world has one; False where one has."""
    if live == simulated == inf:
        return None
    found = ratio(live, simulated)
    return found is not None and abs(found - 1.0) <= HOLDS


def expected(live: P99, simulated: P99) -> bool:
    """Whether the live P99 lies in the simulated interval: nothing more can be asked of what a few ms decide."""
    return simulated.low <= live.value <= simulated.high

"""One mergeable sketch for every latency: exact while small, log buckets beyond, each quantile with its interval.

Buckets have gamma = 2^(1/32): a value read back is off by at most (gamma − 1) ÷ (gamma + 1) = 1.09 %. The index of a
bucket is that of a Prometheus native histogram of schema 5; an OTel exponential histogram of scale 5 counts one less.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, exp, floor, inf, isfinite, lgamma, log, log1p, sqrt
from typing import Any, Final

from msgspec import Struct

from plimsoll.slo.timing import BUCKETS_PER_OCTAVE, ItlSketch, bucket_of

EXACT_UP_TO: Final = 1024
"""Values; a sketch of no more keeps them as they are."""
SCHEMA: Final = 5
"""Of the Prometheus native histogram, and the scale of OTel's, that share these buckets."""
_TAIL: Final = 0.025


class Estimate(Struct, frozen=True):
    """A quantile as it may be shown. Unknown is None: a value without bounds on both sides is not enough data.

    `low` and `high` bound the true quantile with 95 % confidence; either stands alone where the other has no bound.
    """

    quantile: float
    num: int
    value: float | None
    low: float | None
    high: float | None
    effective_num: int | None = None  # independent values that `num` autocorrelated ones are worth, where corrected


class Sketch:
    """Values >= 0 (seconds, as a rule), by count. Merging adds counts, so order and grouping change nothing."""

    def __init__(self) -> None:
        self.num: int = 0
        self.num_zero: int = 0  # of the values in buckets
        self._buckets: Any = None  # slo.buckets.Buckets, once there are more values than are kept
        self._values: list[float] | None = []
        self._sorted: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether every value is still known as it was."""
        return self._values is not None

    @property
    def buckets(self) -> dict[int, int]:
        """Counts by bucket, of what is in buckets."""
        return {} if self._buckets is None else dict(self._buckets.items())

    def add(self, value: float) -> None:
        """One value; ValueError for what is negative, infinite or NaN (a censored value is no value)."""
        if not isfinite(value) or value < 0.0:
            raise ValueError(f"a sketch holds finite values >= 0, not {value}")
        self.num += 1
        if self._values is None:
            self._count(value)
            return
        self._values.append(value)
        self._sorted = False
        if self.num > EXACT_UP_TO:
            self._give_up_exactness()

    def add_many(self, values: Any) -> None:
        """A numpy array (or a sequence) of values at once; the same result as one by one, a hundred times as fast."""
        import numpy as np  # noqa: PLC0415 - kept out of what `serve` imports

        array = np.asarray(values, dtype=np.float64)
        if self._values is not None and self.num + array.size <= EXACT_UP_TO:
            if array.size and not (np.isfinite(array).all() and (array >= 0.0).all()):
                raise ValueError("a sketch holds finite values >= 0")
            self._values.extend(array.tolist())
            self._sorted = False
            self.num += int(array.size)
            return
        self._give_up_exactness()
        self.num_zero += self._buckets.add_values(array)
        self.num += int(array.size)

    def add_buckets(self, num_zero: int, buckets: Mapping[int, int]) -> None:
        """Counts that were bucketed elsewhere."""
        self._give_up_exactness()
        self.num += num_zero + sum(buckets.values())
        self.num_zero += num_zero
        self._buckets.add_all(buckets.items())

    def add_itl(self, sketch: ItlSketch) -> None:
        """The token gaps of one position class of a request."""
        self.add_buckets(sketch.num_zero, sketch.buckets)

    def merge(self, other: "Sketch") -> None:
        """Everything that the other holds, which stays as it is."""
        if other._values is None:
            if self._buckets is None:
                self._give_up_exactness()
            self.num += other.num
            self.num_zero += other.num_zero
            self._buckets.merge(other._buckets)
            return
        if self._values is not None and self.num + other.num <= EXACT_UP_TO:
            self._values.extend(other._values)
            self._sorted = False
            self.num += other.num
            return
        self._give_up_exactness()
        self.num += other.num
        for value in other._values:
            self._count(value)

    def quantile(self, q: float) -> float | None:
        """The value of rank ⌈q × n⌉, whatever n; None of nothing. What is shown to people is `estimate`."""
        if self.num == 0:
            return None
        rank = min(self.num, max(1, ceil(q * self.num - 1e-9)))
        low, high = self._at_ranks((rank,))[0]
        return low if low == high else _middle(high)

    def estimate(self, q: float, *, tail: float = _TAIL, effective_num: int | None = None) -> Estimate:
        """The quantile with a two-sided interval from order statistics, each side missing with probability `tail`.

        Where values are autocorrelated, `effective_num` says how many independent ones they are worth: the ranks are
        those of that many, stretched.
        """
        worth = self.num if effective_num is None else max(1, min(self.num, effective_num))
        low_rank, high_rank = interval_ranks(worth, q, tail)
        if worth < self.num:
            low_rank, high_rank = floor(low_rank * self.num / worth), ceil(high_rank * self.num / worth)
            high_rank = self.num + 1 if high_rank > self.num else high_rank
        has_low, has_high = low_rank >= 1, self.num > 0 and high_rank <= self.num
        ranks = tuple([rank for rank, has in ((low_rank, has_low), (high_rank, has_high)) if has])
        found = self._at_ranks(ranks)
        low = found[0][0] if has_low else None
        high = found[-1][1] if has_high else None
        value = self.quantile(q) if has_low and has_high else None
        return Estimate(q, self.num, value, low, high, effective_num)

    def num_above(self, threshold: float) -> int:
        """How many values exceed the threshold; from buckets, those in the threshold's own count as below it."""
        if self._values is not None:
            return sum(value > threshold for value in self._values)
        if threshold <= 0.0:
            return self.num - self.num_zero
        return int(self._buckets.num_above(bucket_of(threshold)))

    def bucketed(self) -> ItlSketch:
        """Its counts by bucket (Prometheus's index), also where values are still known."""
        buckets, zeros = self.buckets, self.num_zero
        for value in self._values or ():
            if value > 0.0:
                buckets[bucket_of(value)] = buckets.get(bucket_of(value), 0) + 1
            else:
                zeros += 1
        return ItlSketch(zeros, dict(sorted(buckets.items())))

    def weighted(self) -> list[tuple[float, int]]:
        """(value, count) in ascending order; a bucket stands for its middle, within the sketch's bound."""
        if self._values is not None:
            return [(value, 1) for value in sorted(self._values)]
        zeros = [(0.0, self.num_zero)] if self.num_zero else []
        return zeros + [(middle_of(index), num) for index, num in self.buckets.items()]

    def otel_buckets(self) -> dict[int, int]:
        """Counts by the index of an OTel exponential histogram of scale 5."""
        return {index - 1: num for index, num in self.bucketed().buckets.items()}

    def _count(self, value: float) -> None:
        if value == 0.0:
            self.num_zero += 1
        else:
            self._buckets.add(bucket_of(value))

    def _give_up_exactness(self) -> None:
        if self._buckets is None:
            from plimsoll.slo.buckets import Buckets  # noqa: PLC0415 - numpy, kept out of what `serve` imports

            self._buckets = Buckets()
        values, self._values = self._values, None
        for value in values or ():
            self._count(value)

    def _at_ranks(self, ranks: tuple[int, ...]) -> list[tuple[float, float]]:
        """For ascending ranks (from 1): the value twice, or the edges of the bucket it lies in."""
        if self._values is not None:
            if not self._sorted:
                self._values.sort()
                self._sorted = True
            return [(self._values[rank - 1], self._values[rank - 1]) for rank in ranks]
        zeros = [(0.0, 0.0) for rank in ranks if rank <= self.num_zero]
        beyond = [rank - self.num_zero for rank in ranks if rank > self.num_zero]
        return zeros + [bucket_edges(index) for index in self._buckets.index_at(beyond)]


def bucket_edges(index: int) -> tuple[float, float]:
    """The bucket holds low < value <= high."""
    return 2.0 ** ((index - 1) / BUCKETS_PER_OCTAVE), 2.0 ** (index / BUCKETS_PER_OCTAVE)


def middle_of(index: int) -> float:
    """The value that stands for a bucket: equally far, as a ratio, from both edges' relative error."""
    return _middle(2.0 ** (index / BUCKETS_PER_OCTAVE))


_GAMMA: Final[float] = 2.0 ** (1.0 / BUCKETS_PER_OCTAVE)


def _middle(high: float) -> float:
    return 2.0 * high / (1.0 + _GAMMA)


@lru_cache(maxsize=4096)
def interval_ranks(num: int, q: float, tail: float = _TAIL) -> tuple[int, int]:
    """Ranks l, u of order statistics with P(x_l <= quantile <= x_u) >= 1 − 2 × tail.

    l = 0: no lower bound exists; u = num + 1: no upper one. At 95 %, two-sided, p99 has both from 368 values on, p99.9
    from 3,688.
    """
    if num <= 0:
        return 0, num + 1
    return _binomial_quantile(num, q, tail), _binomial_quantile(num, q, 1.0 - tail) + 1


def _binomial_quantile(num: int, p: float, level: float) -> int:
    """The smallest k with P(Binomial(num, p) <= k) >= level, summed from nine deviations below the mean."""
    if level > 0.5:  # from above, where the small tail is exact
        return num - _upper_count(num, 1.0 - p, 1.0 - level)
    k = max(0, floor(num * p - 9.0 * sqrt(num * p * (1.0 - p)) - 2.0))
    mass = _binomial_mass(num, p, k)
    total = mass
    while total < level and k < num:
        mass *= (num - k) / (k + 1) * p / (1.0 - p)
        k += 1
        total += mass
    return k


def _upper_count(num: int, p: float, tail: float) -> int:
    """The largest k with P(Binomial(num, p) < k) <= tail: the mirror image of the quantile near 1."""
    k = max(0, floor(num * p - 9.0 * sqrt(num * p * (1.0 - p)) - 2.0))
    mass = _binomial_mass(num, p, k)
    total = mass
    while total <= tail and k < num:
        mass *= (num - k) / (k + 1) * p / (1.0 - p)
        k += 1
        total += mass
    return k


def _binomial_mass(num: int, p: float, k: int) -> float:
    log_mass = lgamma(num + 1) - lgamma(k + 1) - lgamma(num - k + 1) + k * log(p) + (num - k) * log1p(-p)
    return exp(log_mass)


class RatioEstimate(Struct, frozen=True):
    """One quantile over another of the same values, with a conservative 95 % interval."""

    num: int
    value: float | None
    low: float | None
    high: float | None


def tail_ratio(
    sketch: Sketch, upper: float = 0.99, lower: float = 0.5, effective_num: int | None = None
) -> RatioEstimate:
    """P99 ÷ P50. Both quantiles are bounded at 97.5 %, so that the quotient of bounds holds at 95 % (Bonferroni)."""
    top = sketch.estimate(upper, tail=_TAIL / 2, effective_num=effective_num)
    bottom = sketch.estimate(lower, tail=_TAIL / 2, effective_num=effective_num)
    return RatioEstimate(
        sketch.num,
        _over(sketch.estimate(upper, effective_num=effective_num).value, sketch.estimate(lower).value),
        _over(top.low, bottom.high),
        _over(top.high, bottom.low),
    )


def _over(top: float | None, bottom: float | None) -> float | None:
    if top is None or bottom is None:
        return None
    if bottom == 0.0:
        return None if top == 0.0 else inf
    return top / bottom

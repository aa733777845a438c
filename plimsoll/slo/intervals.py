"""Bounds on a ratio of counts: Clopper and Pearson's, from sums of the binomial distribution and nothing else."""

from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import Final

_TAIL: Final = 0.025


@lru_cache(maxsize=65536)
def clopper_pearson(num: int, of: int) -> tuple[float, float]:
    """Two-sided 95 % bounds of the ratio num ÷ of, never narrower than they say; (0, 1) of nothing."""
    if of == 0:
        return 0.0, 1.0
    low = 0.0 if num == 0 else _solve(num, of)
    high = 1.0 if num == of else 1.0 - _solve(of - num, of)
    return low, high


def surely_above(num: int, of: int, ratio: float) -> bool:
    """Whether the lower bound of num ÷ of exceeds the ratio: P(X >= num | ratio) < 2.5 %."""
    if ratio >= 1.0 or num <= of * ratio:
        return False
    return ratio <= 0.0 or upper_tail(num, of, ratio) < _TAIL


def upper_tail(num: int, of: int, ratio: float) -> float:
    """P(X >= num) for X binomial of `of` trials; exact where it is below 2.5 %, else anything above that."""
    if num <= of * ratio:
        return 1.0
    log_mass = lgamma(of + 1) - lgamma(num + 1) - lgamma(of - num + 1)
    mass = exp(log_mass + num * log(ratio) + (of - num) * log1p(-ratio))
    tail, k = mass, num
    while k < of and mass > tail * 1e-17 and tail < _TAIL:
        mass *= (of - k) / (k + 1) * ratio / (1.0 - ratio)
        k += 1
        tail += mass
    return tail


def _solve(num: int, of: int) -> float:
    """The ratio at which `num` or more would be seen with probability 2.5 %, by halving."""
    low, high = 0.0, num / of
    for _ in range(60):
        middle = (low + high) / 2
        if middle <= 0.0 or upper_tail(num, of, middle) < _TAIL:
            low = middle
        else:
            high = middle
    return low

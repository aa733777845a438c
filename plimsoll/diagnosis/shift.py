"""Time: since when is it worse? Change points of a share of bad requests, robust to traffic mix and autocorrelation.

What is counted is "slow for its kind": a latency over the median of like requests (the row's baseline, which knows
prompt length, hit or miss, and pool) above a level that a given share of the window exceeds. A wave of long prompts
does not look like a change, and a change of the tail alone does.

A split is believed where the likelihood ratio of two shares against one exceeds a bound, after it is divided by the
design effect of the two halves (requests that arrive together are slow together). The bound's false alarms are
measured in tests/diagnosis/test_shift.py.
"""

from itertools import pairwise
from math import log
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.visits import Floats
from plimsoll.slo.intervals import clopper_pearson

BOUND: Final = 14.0
"""2 × log likelihood ratio above which a split is believed."""
MIN_EACH: Final = 30
"""Requests on each side of a split."""
MAX_SPLITS: Final = 200
MAX_CHANGES: Final = 6
NUM_BLOCKS: Final = (24, 12, 6)
"""Blocks of time from which the design effect of a stretch is taken."""


class Stretch(Struct, frozen=True):
    """A time without a change: how many requests, how many of them bad, and 95 % bounds of that ratio."""

    since: float
    until: float
    num: int
    num_bad: int
    ratio: float
    low: float
    high: float


class Change(Struct, frozen=True):
    """An instant at which the share of bad requests changed."""

    at: float
    before: Stretch
    after: Stretch
    strength: float  # 2 × log likelihood ratio ÷ design effect

    @property
    def worse(self) -> bool:
        """Whether there are more bad ones after it."""
        return self.after.ratio > self.before.ratio


def changes(at: Floats, bad: NDArray[np.bool_], bound: float = BOUND) -> tuple[Change, ...]:
    """Change points of the share of bad requests, in order of time. `at` ascends (s)."""
    count = np.concatenate(([0], np.cumsum(bad)))
    points: list[tuple[int, float]] = []
    _search(at, bad, count, 0, len(at), bound, points)
    points = sorted(sorted(points, key=lambda point: -point[1])[:MAX_CHANGES])
    edges = [0, *(index for index, _ in points), len(at)]
    stretches = [_stretch(at, count, low, high) for low, high in pairwise(edges)]
    return tuple(
        Change(float(at[index]), before, after, strength)
        for (index, strength), before, after in zip(points, stretches, stretches[1:], strict=False)
    )


def slow_for_its_kind(latency: Floats, baseline: Floats, share: float = 0.2) -> NDArray[np.bool_]:
    """Which latencies exceed their baseline by a factor that a `share` of those with one exceeds."""
    ratio = latency / np.where(baseline > 0.0, baseline, np.nan)
    known = ratio[~np.isnan(ratio)]
    if not known.size:
        return np.zeros(len(latency), bool)
    slow: NDArray[np.bool_] = np.nan_to_num(ratio) > np.quantile(known, 1.0 - share)
    return slow


def _search(  # noqa: PLR0917 - one stretch of the same arrays
    at: Floats,
    bad: NDArray[np.bool_],
    count: NDArray[np.int64],
    low: int,
    high: int,
    bound: float,
    found: list[tuple[int, float]],
) -> None:
    if len(found) >= 4 * MAX_CHANGES:
        return
    best = _best_split(count, low, high)
    if best is None:
        return
    index, ratio = best
    strength = ratio / max(_effect(at, bad, low, index), _effect(at, bad, index, high))
    if strength <= bound:
        return
    found.append((index, strength))
    _search(at, bad, count, low, index, bound, found)
    _search(at, bad, count, index, high, bound, found)


def _best_split(count: NDArray[np.int64], low: int, high: int) -> tuple[int, float] | None:
    """The split of rows [low, high) with the greatest 2 × log likelihood ratio."""
    if high - low < 2 * MIN_EACH:
        return None
    step = max(1, (high - low) // MAX_SPLITS)
    places = np.arange(low + MIN_EACH, high - MIN_EACH + 1, step)
    best = _ratios(count, low, places, high)
    coarse = int(places[int(best.argmax())])
    fine = np.arange(max(low + MIN_EACH, coarse - step), min(high - MIN_EACH, coarse + step) + 1)
    exact = _ratios(count, low, fine, high)
    top = int(exact.argmax())
    return int(fine[top]), float(exact[top])


def _ratios(count: NDArray[np.int64], low: int, places: NDArray[np.int64], high: int) -> Floats:
    left, right = (places - low).astype(float), (high - places).astype(float)
    bad_left = (count[places] - count[low]).astype(float)
    bad_right = (count[high] - count[places]).astype(float)
    whole = _log_likelihood(np.asarray(bad_left + bad_right), left + right)
    result: Floats = 2.0 * (_log_likelihood(bad_left, left) + _log_likelihood(bad_right, right) - whole)
    return result


def _log_likelihood(bad: Floats, num: Floats) -> Floats:
    good = num - bad
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bad > 0, bad * np.log(bad / num), 0.0) + np.where(good > 0, good * np.log(good / num), 0.0)


def _effect(at: Floats, bad: NDArray[np.bool_], low: int, high: int) -> float:
    """Design effect of a stretch: variance of its blocks' counts over that of independent requests; at least 1.

    The greatest over several lengths of blocks: how long a busy spell lasts is not known beforehand.
    """
    num = high - low
    total = int(bad[low:high].sum())
    if total in {0, num}:
        return 1.0
    ratio = total / num
    effect = 1.0
    for blocks in NUM_BLOCKS:
        if num < 10 * blocks:
            continue
        edges = np.linspace(at[low], at[high - 1], blocks + 1)
        place = np.clip(np.searchsorted(edges, at[low:high], side="right") - 1, 0, blocks - 1)
        sizes = np.bincount(place, minlength=blocks).astype(float)
        bads = np.bincount(place, weights=bad[low:high], minlength=blocks)
        spread = float(((bads - sizes * ratio) ** 2).sum()) * blocks / (blocks - 1)
        effect = max(effect, spread / (num * ratio * (1.0 - ratio)))
    return effect


def _stretch(at: Floats, count: NDArray[np.int64], low: int, high: int) -> Stretch:
    num, num_bad = high - low, int(count[high] - count[low])
    bounds = clopper_pearson(num_bad, num)
    until = float(at[high]) if high < len(at) else float(at[-1])
    return Stretch(float(at[low]), until, num, num_bad, num_bad / num if num else 0.0, *bounds)


def evidence(strength: float) -> float:
    """A share of belief for a strength: 0.5 at the bound, near 1 well above it."""
    return 1.0 - 0.5 * (BOUND / strength) if strength > BOUND else 0.5 * strength / BOUND if strength > 0 else log(1.0)

"""Time: since when is it worse? Change points of a share of bad requests, robust to traffic mix and autocorrelation.

What is counted is "slow for its kind": a latency over the median of like requests (the row's baseline, which knows
prompt length, hit or miss, and pool) above a level that a given share of the window exceeds. A wave of long prompts
does not look like a change, and a change of the tail alone does.

A spell is believed where the likelihood ratio of two shares against one exceeds a bound, after it is divided by the
design effect within the spell and around it (requests that arrive together are slow together). Its false alarms are
measured in tests/diagnosis/test_shift.py.
"""

from itertools import pairwise
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.visits import Floats
from plimsoll.slo.intervals import clopper_pearson

BOUND: Final = 18.0
"""2 × log likelihood ratio above which a spell is believed."""
MIN_EACH: Final = 30
"""Requests within a spell, and around it."""
MAX_EDGES: Final = 64
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


def changes(at: Floats, bad: NDArray[np.bool_]) -> tuple[Change, ...]:
    """Change points of the share of bad requests, in order of time. `at` ascends (s)."""
    count = np.concatenate(([0], np.cumsum(bad)))
    points: list[tuple[int, float]] = []
    _search(at, bad, count, (0, len(at)), points)
    if not points:
        return ()
    strongest = dict(sorted(points, key=lambda point: point[1])[-MAX_CHANGES:])
    points = sorted(strongest.items())
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


def _search(
    at: Floats, bad: NDArray[np.bool_], count: NDArray[np.int64], span: tuple[int, int], found: list[tuple[int, float]]
) -> None:
    """Look for a spell within a stretch that differs from what is around it, then within and around that."""
    low, high = span
    if high - low < 2 * MIN_EACH or len(found) >= 4 * MAX_CHANGES:
        return
    begin, end, ratio = _best_spell(count, low, high)
    pieces = [(low, begin), (begin, end), (end, high)]
    strength = ratio / max(_effect(at, bad, *piece) for piece in pieces)
    if strength <= BOUND:
        return
    found += [(index, strength) for index in (begin, end) if low < index < high]
    for piece in pieces:
        _search(at, bad, count, piece, found)


def _best_spell(count: NDArray[np.int64], low: int, high: int) -> tuple[int, int, float]:
    """The rows [begin, end) that differ most from the others of [low, high): by 2 × log likelihood ratio."""
    step = max(MIN_EACH // 2, (high - low) // MAX_EDGES)
    edges = np.unique(np.append(np.arange(low, high, step), high))
    begin, end, _ = _best_pair(count, (low, high), edges, edges)
    near = np.arange(-step, step + 1, max(1, step // 8))
    begins = np.unique(np.clip(begin + near, low, high)) if begin > low else np.array([low])
    ends = np.unique(np.clip(end + near, low, high)) if end < high else np.array([high])
    return _best_pair(count, (low, high), begins, ends)


def _best_pair(
    count: NDArray[np.int64], span: tuple[int, int], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[int, int, float]:
    low, high = span
    begin, end = (grid.ravel() for grid in np.meshgrid(begins, ends, indexing="ij"))
    inside = end - begin
    allowed = (inside >= MIN_EACH) & (high - low - inside >= MIN_EACH)
    begin, end, inside = begin[allowed], end[allowed], inside[allowed].astype(np.float64)
    if not begin.size:
        return low, high, 0.0
    bad_inside: Floats = (count[end] - count[begin]).astype(np.float64)
    num, num_bad = float(high - low), float(count[high] - count[low])
    whole = _log_likelihood(np.array([num_bad]), np.array([num]))
    around = _log_likelihood(num_bad - bad_inside, num - inside)
    ratios = 2.0 * (_log_likelihood(bad_inside, inside) + around - whole)
    best = int(ratios.argmax())
    return int(begin[best]), int(end[best]), float(ratios[best])


def _log_likelihood(bad: NDArray[Any], num: NDArray[Any]) -> Floats:
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

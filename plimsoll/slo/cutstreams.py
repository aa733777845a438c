"""Token gaps of streams that were cut: long answers are the ones cut, so late tokens are missing from what is seen.

A token at position n was seen only of streams not cut before n. So each counts for 1 ÷ P(not cut before n), by
Kaplan–Meier over the tokens after which streams were cut, with those that ended by themselves censored there. Gaps of a
stream are kept by class of position, so those of one class share the mean of their weights. Assumed: what cuts a stream
does not depend on its gaps (a client that loses patience breaks that). Where the ends of many streams lie beyond every
position that was seen, late tokens are not to be had: `unseen_ratio` says of how many.

Source: inverse-probability weighting of censored observations, Robins and Rotnitzky 1992.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from plimsoll.slo.censoring import SurvivalCurve
from plimsoll.slo.timing import POSITION_ENDS

Lengths = Mapping[tuple[int, bool], int]
"""(tokens that came, whether the stream was cut) → streams."""
_BEGINS: Final = (2, *[end + 1 for end in POSITION_ENDS])
"""First position of each class; the first token ends no gap."""


class CutStreams:
    """What cutting took from some streams."""

    def __init__(self, lengths: Lengths) -> None:
        """Streams with at least one token."""
        rows = sorted((tokens, cut, num) for (tokens, cut), num in lengths.items() if tokens > 0)
        tokens = np.array([row[0] for row in rows], np.float64)
        cut = np.array([row[1] for row in rows], bool)
        num = np.array([row[2] for row in rows], np.int64)
        self.num = int(num.sum())
        self.num_cut = int(num[cut].sum())
        ends = SurvivalCurve(tokens, ~cut, num)
        left = float(ends.survival[-1]) if ends.survival.size else 1.0
        self.unseen_ratio = left if self.num_cut else 0.0
        # of streams with as many tokens, those that were cut had been there when the others ended
        cuts = SurvivalCurve(tokens + np.where(cut, 0.0, 0.5), cut, num)
        times = np.concatenate(([0.0], cuts.times))
        uncut = np.concatenate(([1.0], cuts.survival))
        most = int(tokens.max(initial=1.0))
        seen = uncut[np.searchsorted(times, np.arange(1.0, most + 1.0), side="left") - 1]
        self._sums = np.concatenate(([0.0], np.cumsum(1.0 / np.maximum(seen, 1e-9))))

    def weights(self, tokens: int) -> tuple[float, float, float]:
        """For how many gaps each counts that a stream of so many tokens has in each class; 1 where it has none."""
        ends = (*POSITION_ENDS, tokens)
        found = []
        for begin, end in zip(_BEGINS, ends, strict=True):
            stop = min(end, tokens, self._sums.size - 1)
            wide = stop >= begin
            found.append(float(self._sums[stop] - self._sums[begin - 1]) / (stop - begin + 1) if wide else 1.0)
        near, middle, far = found
        return near, middle, far

"""What slow requests spent more than like ones: the parts of their time against those of requests that were fine.

Like with like: prompt and output length by octave, hit or miss. What remains when lengths are alike is `like`; what
comes from being longer than usual is `mix`: a tenant that sends longer prompts than it did is slower by itself.
"""

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.timeparts import COLUMN, PARTS, Part, TimeParts
from plimsoll.diagnosis.visits import Floats, Ints, Visits

MIN_LIKE: Final = 5
"""Fewer like requests say nothing; then the mean of all stands in, by the token."""


class Excess(Struct, frozen=True):
    """Mean seconds a slow request spent more, by part, in the order of PARTS."""

    num: int
    like: Floats
    mix: Floats
    compared: str  # "before" (a time before the change), "fine" (others of the same time), "nothing"

    @property
    def total(self) -> float:
        """Seconds a request, of all that is more."""
        return float(np.maximum(0.0, self.like).sum() + max(0.0, float(self.mix.sum())))

    def share(self, *parts: Part) -> float:
        """Which share of the whole excess these parts are, lengths being alike; 0.0 where there is none."""
        more = np.maximum(0.0, self.like)
        return float(sum(more[COLUMN[part]] for part in parts)) / self.total if self.total > 0.0 else 0.0

    @property
    def mix_share(self) -> float:
        """Which share comes from longer prompts and answers."""
        return max(0.0, float(self.mix.sum())) / self.total if self.total > 0.0 else 0.0


def excess(visits: Visits, parts: TimeParts, slow: Ints, fine: Ints, compared: str) -> Excess:
    """Of the rows `slow` over the rows `fine`."""
    if not slow.size or not fine.size:
        nothing = np.zeros(len(PARTS))
        mean = parts.seconds[slow].mean(axis=0) if slow.size else nothing
        return Excess(int(slow.size), mean, nothing, "nothing")
    usual = parts.seconds[fine].mean(axis=0)
    alike = _scaled(visits, usual, slow, fine)
    _fill(alike, parts.seconds, _kinds(visits), slow, fine)
    mix = (alike - usual).mean(axis=0)
    return Excess(int(slow.size), (parts.seconds[slow] - alike).mean(axis=0), mix, compared)


def _scaled(visits: Visits, usual: Floats, slow: Ints, fine: Ints) -> Floats:
    """The mean of fine rows, with what grows by the token in proportion to each slow row's tokens."""
    alike = np.tile(usual, (slow.size, 1))
    prompt, output = visits.uncached.astype(float), np.maximum(1, visits.output).astype(float)
    for parts, tokens in (((Part.OWN_PREFILL,), prompt), ((Part.DECODE, Part.OTHERS_PREFILL), output)):
        for part in parts:
            alike[:, COLUMN[part]] *= tokens[slow] / tokens[fine].mean()
    return alike


def _kinds(visits: Visits) -> NDArray[np.int64]:
    prompt = np.log2(np.maximum(1, visits.prompt)).astype(np.int64)
    output = np.log2(np.maximum(1, visits.output)).astype(np.int64)
    hit = (visits.cached > visits.prompt // 4).astype(np.int64)
    result: NDArray[np.int64] = (prompt * 64 + output) * 2 + hit
    return result


def _fill(alike: Floats, seconds: Floats, keys: NDArray[np.int64], slow: Ints, fine: Ints) -> None:
    """Where enough fine rows are of a slow one's kind, their mean is what it should have taken."""
    kinds, place, counts = np.unique(keys[fine], return_inverse=True, return_counts=True)
    sums = np.zeros((len(kinds), seconds.shape[1]))
    np.add.at(sums, place, seconds[fine])
    means = sums / counts[:, None]
    at = np.minimum(np.searchsorted(kinds, keys[slow]), len(kinds) - 1)
    known = (kinds[at] == keys[slow]) & (counts[at] >= MIN_LIKE)
    alike[known] = means[at[known]]

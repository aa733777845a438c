"""How many turns conversations have and how long apart, from a log that ends while some are under way.

A conversation that has been silent for s at the end of the log is over, or its next turn is still to come. With p_k the
chance that a k-th turn is followed by another and S the survival of the time until then, it is over with probability
(1 − p_k) ÷ (1 − p_k + p_k S(s)); p and S follow from these and from what was seen, and so on until nothing moves
(expectation maximisation of the mixture cure model: Farewell, Biometrics 38(4), 1982; S is Kaplan and Meier's with
those weights). Times between turns are taken not to depend on the turn.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.storage.tracerow import TraceRow

Table = tuple[tuple[float, float], ...]
"""(share of what there is, value), both rising."""
Floats = NDArray[np.float64]

_ROUNDS: Final = 60
_FEWEST: Final = 30  # conversations that reached a turn; turns that fewer reached share one chance


class Endings(Struct, frozen=True):
    """`turns`: share of conversations with at most so many; `gaps`: of times between turns, at most so many s."""

    turns: Table
    gaps: Table


def endings_of(found: Sequence[Sequence[TraceRow]], duration: float) -> Endings:
    """From conversations in a log of `duration` s, at least one of which has two turns."""
    gaps = np.array([later.at - earlier.at for each in found for earlier, later in pairwise(each)])
    counts = np.array([len(each) for each in found])
    silences = np.array([max(0.0, duration - each[-1].at) for each in found])
    group = _groups(counts)  # by number of turns, from 1 on: which chance is its
    went_on = np.bincount(group[:-1], weights=[float((counts > k).sum()) for k in range(1, len(group))])
    stayed = np.bincount(group[counts - 1], minlength=group[-1] + 1)
    went_on = np.resize(np.append(went_on, np.zeros(group[-1] + 1)), group[-1] + 1)
    curve = _Curve(gaps, silences)
    chances, alive = went_on / (went_on + stayed), np.zeros(len(counts))
    for _ in range(_ROUNDS):
        survival = curve.at_silences(alive)
        goes_on = chances[group[counts - 1]]
        alive = goes_on * survival / np.maximum(1e-12, 1.0 - goes_on + goes_on * survival)
        more = np.bincount(group[counts - 1], weights=alive, minlength=group[-1] + 1)
        chances = (went_on + more) / (went_on + stayed)
    return Endings(_turns(chances[group]), curve.table(alive))


def _groups(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number by turn: its own, but one for all turns that few conversations reached."""
    reached = [int((counts >= k).sum()) for k in range(1, int(counts.max()) + 1)]
    rare = next((place for place, num in enumerate(reached) if num < _FEWEST), len(reached) - 1)
    return np.minimum(np.arange(len(reached)), rare)


def _turns(chances: Floats) -> Table:
    """The last turn that was seen is the last one that is."""
    shares = 1.0 - np.cumprod(chances)
    shares[-1] = 1.0
    return tuple((share, float(turns)) for turns, share in enumerate(shares.tolist(), 1))


class _Curve:
    """Survival of the time between turns; a silence weighs what its conversation is alive."""

    def __init__(self, gaps: Floats, silences: Floats) -> None:
        values = np.concatenate([gaps, silences])
        seen = np.concatenate([np.ones(len(gaps)), np.zeros(len(silences))])
        order = np.lexsort((1.0 - seen, values))
        self._values, self._seen = values[order], seen[order]
        self._num_gaps, self._order = len(gaps), order
        self._places = np.searchsorted(self._values, silences, side="right") - 1

    def _survival(self, alive: Floats) -> Floats:
        weights = np.concatenate([np.ones(self._num_gaps), alive])[self._order]
        at_risk = np.cumsum(weights[::-1])[::-1]
        return np.asarray(np.cumprod(1.0 - weights * self._seen / np.maximum(at_risk, 1e-12)))

    def at_silences(self, alive: Floats) -> Floats:
        """After each conversation's silence."""
        survival = self._survival(alive)
        return np.where(self._places >= 0, survival[self._places], 1.0)

    def table(self, alive: Floats) -> Table:
        """Shares of gaps; the longest that was seen is the longest there is."""
        shares = (1.0 - self._survival(alive))[self._seen > 0]
        shares[-1] = 1.0
        return tuple(zip(shares.tolist(), self._values[self._seen > 0].tolist(), strict=True))


def at_share(table: Table, share: float) -> float:
    """The least value that so large a share does not exceed."""
    place = int(np.searchsorted([each for each, _ in table], share - 1e-9))
    return table[min(place, len(table) - 1)][1]

"""What prompts of each length waited, and how fast answers came by how many were under way: quantiles of a run's times.

Times of all prompts together hang on the batches that they met as much as on their own lengths; by length they tell a
token's cost from a step's, and by company a sequence's cost from a step's.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.sim.descent import Floats
from plimsoll.sim.replaying import EngineRun, Modelled, Seen

FEWEST: Final = 500  # requests of a run from which lengths are told apart
BEGINNING: Final = 2000  # requests of a run that are enough to come near
CLASSES: Final = (0.2, 0.4, 0.6, 0.8)  # quantiles of length and of company between classes
LEVELS: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97)  # quantiles of times
SHORTEST: Final = 1e-4  # s: shorter ones count as this


def tells_lengths(run: EngineRun) -> bool:
    """Whether it has requests enough."""
    return len(run.seen) >= FEWEST


def between(answers: Sequence[Seen] | Sequence[Modelled], *, single: bool) -> list[float]:
    """Gaps between tokens; where single ones are not known, each answer's mean of them."""
    if single:
        return [gap for each in answers for gap in each.gaps]
    return [each.tpot for each in answers if each.tpot > 0.0]


class Lengths:
    """The classes of a run's requests."""

    def __init__(self, run: EngineRun) -> None:
        answered = [place for place, each in enumerate(run.seen) if each.gaps or each.tpot]
        company = _company(run)
        self._by_length = _classes(np.array([each.prompt_tokens for each in run.seen]))
        self._by_company = [np.array(answered)[members] for members in _classes(company[answered])] if answered else []

    def figures(self, answers: Sequence[Seen] | Sequence[Modelled]) -> Floats:
        """Quantiles in logarithms, always as many for a run."""
        waits = np.log(np.maximum([each.ttft for each in answers], SHORTEST))
        paces = np.log(np.maximum([each.tpot or fmean(each.gaps or (0.0,)) for each in answers], SHORTEST))
        found = [np.quantile(waits[members], LEVELS) for members in self._by_length]
        return np.concatenate(found + [np.quantile(paces[members], LEVELS) for members in self._by_company])


def _classes(values: NDArray[np.int_]) -> list[NDArray[np.int_]]:
    """Places of the values, from the class of the least to that of the greatest."""
    number = np.digitize(values, np.quantile(values, CLASSES))
    return [np.flatnonzero(number == each) for each in np.unique(number)]


def _company(run: EngineRun) -> NDArray[np.int_]:
    """How many others were under way when each came, as seen."""
    ends = np.sort([each.ended_at for each in run.seen])
    return np.arange(len(run.seen)) - np.searchsorted(ends, [each.arrived_at for each in run.seen], side="right")

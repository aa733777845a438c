"""Two predictors of TTFT on requests that neither has seen: errors, pinball losses, whether one wins."""

from collections.abc import Sequence
from math import exp, log
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.engine.learned import HeldOut
from plimsoll.sim.estimate import Estimate, estimate
from plimsoll.sim.pastdispatches import Case

FIRST_PART: Final = 0.5  # of the time, from which is learnt; what comes after is held out
STRETCHES: Final = 10  # of the held-out time, by which is told what is chance

Floats = NDArray[np.float64]
QUANTILES: Final = (0.5, 0.9)
"""What is forecast of each case, s: an array of two columns."""


class Comparison(Struct, frozen=True):
    """`gain_*`: pinball loss of the learnt one less the step-time model's, s, by stretches of time: better below 0."""

    num: int
    learned: HeldOut
    step_model: HeldOut
    gain_p50: Estimate
    gain_p90: Estimate

    @property
    def wins(self) -> bool:
        """Both quantiles are better, the whole interval of either below 0."""
        return all(gain.high is not None and gain.high < 0.0 for gain in (self.gain_p50, self.gain_p90))


def split(found: Sequence[Case], part: float = FIRST_PART) -> tuple[list[Case], list[Case]]:
    """By time, never shuffled; what had been sent and not ended by then is in neither."""
    if not found:
        return [], []
    first, last = found[0].at, found[-1].at
    until = first + part * (last - first)
    return [case for case in found if case.at + case.ttft < until], [case for case in found if case.at >= until]


def target_of(case: Case) -> float:
    """What trees are grown on: log of what came ÷ what was predicted."""
    return log(max(case.ttft, 1e-6) / max(case.facts[0], 1e-6))


def scaled(learnt_on: Sequence[Case], held: Sequence[Case]) -> Floats:
    """The step-time model's: its 90 % quantile is as far above its prediction as it was before."""
    high = exp(float(np.quantile([target_of(case) for case in learnt_on], 0.9)))
    predicted = np.array([case.facts[0] for case in held])
    return np.stack([predicted, predicted * max(1.0, high)], axis=1)


def compare(held: Sequence[Case], learned: Floats, step_model: Floats) -> Comparison:
    """Both on the same requests, in order of time."""
    came = np.array([case.ttft for case in held])
    stretches = np.array_split(np.arange(len(held)), min(STRETCHES, len(held)))
    gains = []
    for i, quantile in enumerate(QUANTILES):
        gain = pinball(came, learned[:, i], quantile) - pinball(came, step_model[:, i], quantile)
        gains.append(estimate([float(gain[stretch].mean()) for stretch in stretches]))
    return Comparison(len(held), figures(came, learned), figures(came, step_model), *gains)


def figures(came: Floats, predicted: Floats) -> HeldOut:
    """Errors of the median, and pinball loss of both."""
    ratios = predicted[:, 0] / came - 1.0
    median, high = np.quantile(np.abs(ratios), [0.5, 0.9])
    losses = [float(pinball(came, predicted[:, i], quantile).mean()) for i, quantile in enumerate(QUANTILES)]
    return HeldOut(float(median), float(high), float(ratios.mean()), *losses)


def pinball(came: Floats, predicted: Floats, quantile: float) -> Floats:
    """Loss whose mean is least for the true quantile (https://doi.org/10.2307/1913643)."""
    off = came - predicted
    return np.maximum(quantile * off, (quantile - 1.0) * off)

"""Predictions of TTFT that a pool's own log has taught: trees that correct the step-time model (`engine/learned.py`).

One object a replica, its trees shared by all of the pool. Each prediction is held against what came, as the step-time
model's are (`predicting.py`), which goes on learning its factors from its own.
"""

from math import exp
from typing import Final

from plimsoll.engine.learned import MOST_OFF, LearnedModel, LearnedProfile, Trees
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.events import ReplicaReport
from plimsoll.governor.predicting import Errors

UNTOLD: Final = -1.0


class Forest:
    """Trees as flat lists: a value is the sum of one leaf of each."""

    def __init__(self, trees: Trees) -> None:
        self._roots = list(trees.roots)
        self._features = list(trees.features)
        self._thresholds = list(trees.thresholds)
        self._lefts = list(trees.lefts)
        self._rights = list(trees.rights)
        self._leaves = list(trees.leaves)

    def value(self, facts: list[float]) -> float:
        """For one row of features."""
        features, thresholds = self._features, self._thresholds
        lefts, rights, leaves = self._lefts, self._rights, self._leaves
        total = 0.0
        for node in self._roots:
            while node >= 0:
                node = lefts[node] if facts[features[node]] <= thresholds[node] else rights[node]  # noqa: PLW2901 - walks
            total += leaves[~node]
        return total


class Forests:
    """A pool's, of both quantiles."""

    def __init__(self, model: LearnedModel) -> None:
        self.p50 = Forest(model.p50)
        self.p90 = Forest(model.p90)


def forests_of(profile: EngineProfile | None) -> Forests | None:
    """Those that come with a profile; None where no log has taught any."""
    return Forests(profile.learned) if isinstance(profile, LearnedProfile) else None


class Learned:
    """One replica's."""

    def __init__(self, forests: Forests) -> None:
        self.forests = forests
        self.errors = Errors()

    def ttft(self, facts: list[float]) -> float:
        """Seconds to the first token, in the median; facts are `facts_at`'s."""
        return facts[0] * exp(bounded(self.forests.p50.value(facts)))

    def late_ttft(self, facts: list[float]) -> float:
        """Seconds within which it comes in nine of ten such cases; never less than the median."""
        return facts[0] * exp(bounded(max(self.forests.p90.value(facts), self.forests.p50.value(facts))))

    def first_token(self, predicted: float, actual: float) -> None:
        """It came `actual` s after dispatch."""
        if predicted > 0.0 and actual > 0.0:
            self.errors.add(predicted, actual)


def bounded(off: float) -> float:
    """A log of ratios as far as it is believed."""
    return min(max(off, -MOST_OFF), MOST_OFF)


def facts_at(
    predicted: float, own: int, cached: int, *, pending: int, running: int, context: int, slowness: float,
    reported: tuple[float, float, float], report_age: float,
) -> list[float]:  # fmt: skip
    """A request on a replica as a row of features, in the order of `engine.learned.FEATURES`."""
    return [
        predicted, float(own), float(pending), float(running), float(context), float(cached), slowness, reported[0],
        reported[1], reported[2], report_age,
    ]  # fmt: skip


def told(report: ReplicaReport | None) -> tuple[float, float, float]:
    """Running, waiting, share of KV blocks in use, by a replica's last report; UNTOLD where it does not say."""
    if report is None:
        return UNTOLD, UNTOLD, UNTOLD
    return known(report.running), known(report.waiting), known(report.kv_usage)


def known(value: float | None) -> float:
    """The number, or that it is not told: never a zero."""
    return UNTOLD if value is None else float(value)

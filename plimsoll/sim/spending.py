"""How a run spent its error budgets over time: what was judged, granted and bad by each of some instants."""

from collections.abc import Sequence
from math import floor
from typing import Final

from msgspec import Struct

from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.estimate import estimate

NUM_POINTS: Final = 24
"""Equal steps of simulated time; what ends after the last belongs to it."""


class Curve(Struct, frozen=True):
    """One objective of one tenant in one run, cumulated. Units are the objective's: requests, or tokens."""

    tenant: str
    tier: str
    objective: str
    granted: tuple[int, ...]  # ⌊judged × (1 − target)⌋
    spent: tuple[int, ...]


class SpendingSummary(Struct, frozen=True):
    """The same over all seeds: `spent` as a mean and its 95 % interval."""

    tenant: str
    tier: str
    objective: str
    at: tuple[float, ...]  # s from the start
    granted: tuple[float, ...]  # mean
    spent: tuple[float, ...]
    spent_low: tuple[float | None, ...]
    spent_high: tuple[float | None, ...]


class Spending:
    """Adds up verdicts by promise and step of time, by arrival."""

    def __init__(self, policy: Policy, start_at: float, duration: float) -> None:
        self._targets = {(tier.name, each.name): each.target for tier in policy.tiers for each in tier.objectives}
        self._start_at = start_at
        self._step = max(duration, 1e-9) / NUM_POINTS
        self._counts: dict[tuple[str, str, str], list[list[int]]] = {}

    def add(self, record: Record) -> None:
        """One request."""
        point = min(NUM_POINTS - 1, max(0, int((record.arrived_at - self._start_at) / self._step)))
        for verdict in record.verdicts:
            num = verdict.num_good + verdict.num_bad
            if num:
                key = (record.tenant, record.tier, verdict.objective)
                counts = self._counts.get(key)
                if counts is None:
                    counts = self._counts[key] = [[0, 0] for _ in range(NUM_POINTS)]
                counts[point][0] += num
                counts[point][1] += verdict.num_bad

    def curves(self) -> tuple[Curve, ...]:
        """All promises that judged anything, by name."""
        return tuple([self._curve(key) for key in sorted(self._counts) if key[1:] in self._targets])

    def _curve(self, key: tuple[str, str, str]) -> Curve:
        judged = bad = 0
        granted, spent = [], []
        for num, wrong in self._counts[key]:
            judged, bad = judged + num, bad + wrong
            granted.append(floor(judged * (1 - self._targets[key[1:]])))
            spent.append(bad)
        return Curve(*key, tuple(granted), tuple(spent))


def summarise_spending(runs: Sequence[Sequence[Curve]], duration: float) -> tuple[SpendingSummary, ...]:
    """The curves of all seeds together; a promise that a seed never judged counts as unspent there."""
    names = sorted({(curve.tenant, curve.tier, curve.objective) for curves in runs for curve in curves})
    found = []
    for name in names:
        curves = [each for run in runs for each in run if (each.tenant, each.tier, each.objective) == name]
        missing = len(runs) - len(curves)
        points = [estimate([*(float(curve.spent[i]) for curve in curves), *[0.0] * missing]) for i in range(NUM_POINTS)]
        found.append(
            SpendingSummary(
                *name,
                at=tuple([duration * (i + 1) / NUM_POINTS for i in range(NUM_POINTS)]),
                granted=tuple([sum(curve.granted[i] for curve in curves) / len(runs) for i in range(NUM_POINTS)]),
                spent=tuple([point.mean or 0.0 for point in points]),
                spent_low=tuple([point.low for point in points]),
                spent_high=tuple([point.high for point in points]),
            )
        )
    return tuple(found)

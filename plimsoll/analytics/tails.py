"""Tails of a log by any labels: figures only, compiled from sketches."""

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Final

from msgspec import Struct

from plimsoll.analytics.figures import LatencyFigure
from plimsoll.analytics.latencyfigures import latency_figure, token_figure, weighted_figure
from plimsoll.analytics.tally import LATENCIES, POSITIONS, Latency
from plimsoll.slo.quantiles import Sketch
from plimsoll.slo.student import student

OTHERS: Final = "(others)"
"""Groups beyond the bound, as one."""


class TailGroup(Struct, frozen=True):
    """One group: its labels (`slice` is a start in UTC epoch s), how many requests, its latencies and token gaps."""

    labels: dict[str, str]
    slice: float | None
    num: int
    num_bad: int  # requests that missed an objective
    latencies: tuple[LatencyFigure, ...]
    itl: LatencyFigure
    itl_by_position: tuple[LatencyFigure, ...]
    itl_uncut: LatencyFigure | None = None  # as if no stream had been cut; None: none was
    num_cut_streams: int = 0
    unseen_ratio: float = 0.0  # share of streams whose end lies beyond every position that was seen


class Uncut:
    """Gaps as they would be, had no stream been cut, in the proportions of `slo/cutstreams`."""

    def __init__(self) -> None:
        self.gaps = Sketch()  # as many as were seen
        self.worth = 0  # so many independent ones
        self.num = 0  # streams
        self.num_cut = 0
        self.num_unseen = 0.0

    def merge(self, other: "Uncut") -> None:
        """Everything that the other holds."""
        self.gaps.merge(other.gaps)
        self.worth += other.worth
        self.num += other.num
        self.num_cut += other.num_cut
        self.num_unseen += other.num_unseen


class PowerLaw(Struct, frozen=True):
    """Violations ∝ activity ^ exponent, over minutes of single tenants, with a 95 % interval. Above 1: a knee."""

    exponent: float
    low: float
    high: float
    num_minutes: int


class Tails(Struct, frozen=True):
    """All groups of a log or of a window of it."""

    source: str
    by: tuple[str, ...]
    every: float | None  # s
    num: int
    num_folded: int  # groups that are in (others)
    groups: tuple[TailGroup, ...]
    whole: TailGroup
    violations: PowerLaw | None  # None: too few minutes with violations


class Group:
    """What a group's figures are compiled from."""

    def __init__(self) -> None:
        self.num = 0
        self.num_bad = 0
        self.latencies: dict[str, Latency] = {name: Latency() for name in LATENCIES}
        self.itl: tuple[Sketch, ...] = tuple(Sketch() for _ in POSITIONS)
        self.uncut = Uncut()

    def merge(self, other: "Group") -> None:
        """Everything that the other holds."""
        self.num += other.num
        self.num_bad += other.num_bad
        for name, latency in self.latencies.items():
            latency.seen.merge(other.latencies[name].seen)
            latency.cut_off.merge(other.latencies[name].cut_off)
        for mine, his in zip(self.itl, other.itl, strict=True):
            mine.merge(his)
        self.uncut.merge(other.uncut)


def tail_group(group: Group, labels: Mapping[str, str], start: float | None = None) -> TailGroup:
    """The figures of one group."""
    gaps = Sketch()
    for part in group.itl:
        gaps.merge(part)
    uncut = group.uncut
    return TailGroup(
        labels=dict(labels),
        slice=start,
        num=group.num,
        num_bad=group.num_bad,
        latencies=tuple(latency_figure(name, latency) for name, latency in group.latencies.items()),
        itl=token_figure("itl", gaps),
        itl_by_position=tuple(token_figure(name, part) for name, part in zip(POSITIONS, group.itl, strict=True)),
        itl_uncut=weighted_figure("itl_uncut", uncut.gaps, uncut.worth) if uncut.num_cut else None,
        num_cut_streams=uncut.num_cut,
        unseen_ratio=uncut.num_unseen / uncut.num if uncut.num_cut else 0.0,
    )


def power_law(minutes: Sequence[tuple[float, float, int]]) -> PowerLaw | None:
    """From (mean activity, mean violations, minutes) of classes of activity; None of fewer than three that have any.

    Weighted least squares on logarithms; the interval takes classes for independent, with the fit's own spread.
    """
    points = [(log(activity), log(bad), num) for activity, bad, num in minutes if activity > 0 and bad > 0 and num > 0]
    if len(points) < 3:
        return None
    weight = sum(num for _, _, num in points)
    mean_x = sum(x * num for x, _, num in points) / weight
    mean_y = sum(y * num for _, y, num in points) / weight
    spread = sum(num * (x - mean_x) ** 2 for x, _, num in points)
    if spread <= 0.0:
        return None
    slope = sum(num * (x - mean_x) * (y - mean_y) for x, y, num in points) / spread
    left = sum(num * (y - mean_y - slope * (x - mean_x)) ** 2 for x, y, num in points)
    error = sqrt(left / (len(points) - 2) / spread)
    reach = student(len(points) - 2) * error
    return PowerLaw(slope, slope - reach, slope + reach, weight)

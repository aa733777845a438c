"""What a simulation says: figures by group with an interval over seeds, the same bytes for the same inputs."""

from collections.abc import Sequence
from math import sqrt
from typing import Final

from msgspec import Struct

from plimsoll.analytics.figures import GroupFigures, LatencyFigure, Report

SCHEMA: Final = 1
_T95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
"""Student's t, two-sided 95 %, for 1 to 20 degrees of freedom; 1.96 beyond is a little narrow and said so nowhere."""


class Estimate(Struct, frozen=True):
    """A figure over seeds. `low` and `high` bound its mean at 95 %; with one seed, as the report bounds it itself."""

    mean: float | None
    low: float | None
    high: float | None
    values: tuple[float | None, ...]  # by seed


class GroupSummary(Struct, frozen=True):
    """One tenant, tier, or all. Keys of `figures` are e.g. ttft_p99, attainment:ttft, goodput_ratio."""

    kind: str
    name: str
    tier: str
    num: tuple[int, ...]  # by seed
    outcomes: tuple[dict[str, int], ...]  # by seed
    figures: dict[str, Estimate]


class ReplicaSummary(Struct, frozen=True):
    """One replica over one run."""

    name: str
    num_steps: int
    preemptions: int
    hit_ratio: float | None  # prompt tokens found in the prefix cache; None: nothing was looked up


class Run(Struct, frozen=True):
    """One seed."""

    seed: int
    num_requests: int
    simulated: float  # s
    report: Report
    replicas: tuple[ReplicaSummary, ...]


class Summary(Struct, frozen=True):
    """`summary.json`."""

    schema: int
    policy_version: str
    seeds: tuple[int, ...]
    complete: bool  # False: stopped by hand before its end
    simulated: float  # s a seed
    groups: tuple[GroupSummary, ...]
    replicas: tuple[tuple[ReplicaSummary, ...], ...]  # by seed


def estimate(values: Sequence[float | None]) -> Estimate:
    """Mean and its 95 % interval by Student's t; None where a seed has no figure."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Estimate(None, None, None, tuple(values))
    mean = sum(known) / len(known)
    if len(known) == 1:
        return Estimate(mean, None, None, tuple(values))
    spread = sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1) / len(known))
    width = spread * (_T95[len(known) - 2] if len(known) - 2 < len(_T95) else 1.96)
    return Estimate(mean, mean - width, mean + width, tuple(values))


def summarise(runs: Sequence[Run], policy_version: str, *, complete: bool) -> Summary:
    """All seeds together, in their order."""
    keys: dict[tuple[str, str, str], None] = {}
    for run in runs:
        keys.update({(group.kind, group.name, group.tier): None for group in _groups(run.report)})
    return Summary(
        SCHEMA,
        policy_version,
        tuple(run.seed for run in runs),
        complete,
        max((run.simulated for run in runs), default=0.0),
        tuple(_group(key, runs) for key in keys),
        tuple(run.replicas for run in runs),
    )


def _groups(report: Report) -> list[GroupFigures]:
    return [report.total, *report.tiers, *report.tenants]


def _group(key: tuple[str, str, str], runs: Sequence[Run]) -> GroupSummary:
    by_run = [
        next((group for group in _groups(run.report) if (group.kind, group.name, group.tier) == key), None)
        for run in runs
    ]
    names: dict[str, None] = {}
    figures = [_figures(group) if group else {} for group in by_run]
    for each in figures:
        names.update(dict.fromkeys(each))
    return GroupSummary(
        *key,
        num=tuple(group.num if group else 0 for group in by_run),
        outcomes=tuple(group.outcomes if group else {} for group in by_run),
        figures={name: _estimate(name, figures) for name in names},
    )


def _estimate(name: str, figures: Sequence[dict[str, "Estimate"]]) -> Estimate:
    if len(figures) == 1:
        return figures[0][name]
    return estimate([each[name].mean if name in each else None for each in figures])


def _figures(group: GroupFigures) -> dict[str, Estimate]:
    """Each figure as one run bounds it."""
    figures: dict[str, Estimate] = {}
    for latency in (*group.latencies, group.itl):
        figures.update(_quantiles(latency))
    good = group.goodput
    figures["goodput_ratio"] = Estimate(good.ratio, good.low, good.high, (good.ratio,))
    figures["goodput_per_second"] = _single(good.per_second)
    for objective in group.objectives:
        judged = objective.num_good + objective.num_bad
        figures[f"attainment:{objective.name}"] = _single(objective.num_good / judged if judged else None)
        spent = sum(budget.spent for budget in objective.budgets)
        if objective.budgets:
            figures[f"budget_spent:{objective.name}"] = _single(float(spent))
    return figures


def _quantiles(latency: LatencyFigure) -> dict[str, Estimate]:
    found = {
        f"{latency.name}_p{100 * figure.quantile:g}": Estimate(figure.value, figure.low, figure.high, (figure.value,))
        for figure in latency.quantiles
    }
    ratio = latency.p99_over_p50
    found[f"{latency.name}_p99_over_p50"] = Estimate(ratio.value, ratio.low, ratio.high, (ratio.value,))
    return found


def _single(value: float | None) -> Estimate:
    return Estimate(value, None, None, (value,))

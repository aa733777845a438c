"""What a simulation says: figures by group with an interval over seeds, the same bytes for the same inputs."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from plimsoll.analytics.figures import GroupFigures, LatencyFigure, ObjectiveFigure, Report
from plimsoll.sim.estimate import Estimate, estimate
from plimsoll.sim.spending import Curve, SpendingSummary, summarise_spending

SCHEMA: Final = 2


class GroupSummary(Struct, frozen=True):
    """One tenant, tier, or all. Keys of `figures` are e.g. ttft_p99, attainment:ttft, goodput_ratio."""

    kind: str
    name: str
    tier: str
    num: tuple[int, ...]  # by seed
    outcomes: tuple[dict[str, int], ...]  # by seed
    figures: dict[str, Estimate]


class ReplicaSummary(Struct, frozen=True):
    """One replica over one run. Ratios are means of regular looks at it; None: nobody looked."""

    name: str
    num_steps: int
    preemptions: int
    hit_ratio: float | None  # prompt tokens found in the prefix cache; None: nothing was looked up
    pool: str = ""
    busy_ratio: float | None = None  # looks at which anything ran there
    kv_usage: float | None = None
    running: float | None = None  # sequences
    waiting: float | None = None
    beyond_fit: int = 0  # steps outside the range that its profile was fitted on


class PoolSummary(Struct, frozen=True):
    """All replicas of a pool: their mean, with its interval over seeds."""

    name: str
    num_replicas: int
    figures: dict[str, Estimate]


class LeftOut(Struct, frozen=True):
    """Rows of a trace that are not simulated, because they break a rule."""

    file: str
    num: int
    first: str  # the first of them, with its row and rule


class Run(Struct, frozen=True):
    """One seed."""

    seed: int
    num_requests: int
    simulated: float  # s
    report: Report
    replicas: tuple[ReplicaSummary, ...]
    complete: bool = True
    spending: tuple[Curve, ...] = ()
    duration: float = 0.0  # s that were asked for
    notes: tuple[str, ...] = ()


class Summary(Struct, frozen=True):
    """`summary.json`."""

    schema: int
    policy_version: str
    seeds: tuple[int, ...]
    complete: bool  # False: stopped by hand before its end
    simulated: float  # s a seed
    groups: tuple[GroupSummary, ...]
    replicas: tuple[tuple[ReplicaSummary, ...], ...]  # by seed
    pools: tuple[PoolSummary, ...] = ()
    spending: tuple[SpendingSummary, ...] = ()  # of error budgets, over time
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


def summarise(
    runs: Sequence[Run], policy_version: str, *, complete: bool, left_out: tuple[LeftOut, ...] = ()
) -> Summary:
    """All seeds together, in their order."""
    keys: dict[tuple[str, str, str], None] = {}
    for run in runs:
        keys.update({(group.kind, group.name, group.tier): None for group in _groups(run.report)})
    return Summary(
        SCHEMA,
        policy_version,
        tuple(run.seed for run in runs),
        complete and all(run.complete for run in runs),
        max((run.simulated for run in runs), default=0.0),
        tuple(_group(key, runs) for key in keys),
        tuple(run.replicas for run in runs),
        _pools(runs),
        summarise_spending([run.spending for run in runs], max((run.duration for run in runs), default=0.0)),
        left_out,
        _notes(runs),
    )


def _notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """How the intervals come about, and what the runs have to say."""
    told = tuple(dict.fromkeys(note for run in runs for note in run.notes)) + beyond_notes(
        [replica for run in runs for replica in run.replicas]
    )
    if len(runs) > 1:
        return (f"Intervals are of the mean over {len(runs)} seeds (Student's t, 95 %).", *told)
    return (*runs[0].report.notes, *told) if runs else ()


def beyond_notes(replicas: Sequence[ReplicaSummary]) -> tuple[str, ...]:
    """Where step times were extrapolated."""
    beyond, steps = sum(one.beyond_fit for one in replicas), sum(one.num_steps for one in replicas)
    if not beyond:
        return ()
    where = ", ".join(sorted({one.pool or one.name for one in replicas if one.beyond_fit}))
    share = f"{beyond:,} of {steps:,} steps"
    return (f"{share} ({where}) had more tokens or context than their profile was fitted on: their times are a guess.",)


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
    nums = [each[name].num for each in figures if name in each]
    known = [num for num in nums if num is not None]
    values = [each[name].mean if name in each else None for each in figures]
    return estimate(values, sum(known) if known else None)


def _figures(group: GroupFigures) -> dict[str, Estimate]:
    """Each figure as one run bounds it."""
    figures: dict[str, Estimate] = {}
    for latency in (*group.latencies, group.itl):
        figures.update(_quantiles(latency))
    good = group.goodput
    figures["goodput_ratio"] = Estimate(good.ratio, good.low, good.high, (good.ratio,), good.num_judged)
    figures["goodput_per_second"] = _single(good.per_second, good.num_met)
    for objective in group.objectives:
        figures.update(_objective(objective))
    return figures


def _objective(objective: ObjectiveFigure) -> dict[str, Estimate]:
    kept, judged = objective.attainment, objective.num_good + objective.num_bad
    figures = {f"attainment:{objective.name}": Estimate(kept.ratio, kept.low, kept.high, (kept.ratio,), judged)}
    if objective.budgets:
        spent, granted = (sum(getattr(each, name) for each in objective.budgets) for name in ("spent", "granted"))
        figures[f"budget_spent:{objective.name}"] = _single(float(spent), judged)
        figures[f"budget_spent_ratio:{objective.name}"] = _single(spent / granted if granted else None, judged)
    return figures


def _quantiles(latency: LatencyFigure) -> dict[str, Estimate]:
    num = latency.num + latency.num_cut_off
    found = {
        f"{latency.name}_p{100 * each.quantile:g}": Estimate(each.value, each.low, each.high, (each.value,), num)
        for each in latency.quantiles
    }
    ratio = latency.p99_over_p50
    found[f"{latency.name}_p99_over_p50"] = Estimate(ratio.value, ratio.low, ratio.high, (ratio.value,), num)
    return found


def _single(value: float | None, num: int | None = None) -> Estimate:
    return Estimate(value, None, None, (value,), num)


def _pools(runs: Sequence[Run]) -> tuple[PoolSummary, ...]:
    names: dict[str, None] = {}
    for run in runs:
        names.update({replica.pool: None for replica in run.replicas})
    return tuple(_pool(name, runs) for name in names)


def _pool(name: str, runs: Sequence[Run]) -> PoolSummary:
    by_run = [[replica for replica in run.replicas if replica.pool == name] for run in runs]
    figures = {
        figure: estimate([_mean([getattr(replica, figure) for replica in replicas]) for replicas in by_run])
        for figure in ("busy_ratio", "kv_usage", "running", "waiting", "hit_ratio", "preemptions")
    }
    return PoolSummary(name, max(len(replicas) for replicas in by_run), figures)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None

"""A tenant's charts as specifications: tails, missed shares, budget, forecasts against what came, charges. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from plimsoll.analytics.figures import LatencyFigure, QuantileFigure
from plimsoll.analytics.forecast import forecast
from plimsoll.analytics.tails import TailGroup
from plimsoll.console.plots import Band, Bar, Bars, Lines, Mark, Series
from plimsoll.console.tenantreading import TenantLog
from plimsoll.policy.objective import Objective
from plimsoll.slo.budget import HourCount, period_bounds, period_of
from plimsoll.slo.verdict import Charge
from plimsoll.units import format_duration

HOUR: Final = 3600.0
DAY: Final = 86_400.0
MOST_FORECASTS: Final = 14
"""Days for which a forecast is made anew and held against what came."""
CHARGE_KINDS: Final = {
    Charge.OURS: "bad", Charge.JOINT: "s2", Charge.UPSTREAM: "s3", Charge.CLIENT: "s4", Charge.INFEASIBLE: "s5",
    Charge.UNLABELLED: "dimmed",
}  # fmt: skip


def tail_lines(log: TenantLog, name: str, title: str, promised: float | None, zone: str) -> Lines:
    """P50 and P99 by slice with the P99's interval, and what was promised."""
    figures = [(group.slice or 0.0, _latency(group.latencies, name)) for group in _in_time(log)]
    middle = log.every / 2
    p50 = [(at + middle, _value(_quantile(figure, 0.5))) for at, figure in figures]
    p99 = [(at + middle, _value(_quantile(figure, 0.99))) for at, figure in figures]
    band = [
        (at + middle, found.low, found.high)
        for at, figure in figures
        if (found := _quantile(figure, 0.99)).low is not None and found.high is not None
    ]
    p90 = [(at + middle, _value(_quantile(figure, 0.9))) for at, figure in figures]
    series = [Series("P99", tuple(p99), "s2"), Series("P90", tuple(p90), "s3"), Series("P50", tuple(p50), "s1")]
    if promised is not None:
        series.append(Series("promised", ((log.since, promised), (log.until, promised)), "promised"))
    return Lines(
        name="tails", title=title, unit="s", window=_window(log), num=sum(figure.num for _, figure in figures),
        series=tuple(series), bands=(Band("P99, 95 % interval", tuple(band), "s2"),) if band else (), zone=zone,
        log=True,
    )  # fmt: skip


def missed_lines(log: TenantLog, zone: str, marks: Sequence[Mark] = ()) -> Lines:
    """Share of requests that missed an objective, by slice."""
    middle = log.every / 2
    points = tuple([((group.slice or 0.0) + middle, group.num_bad / group.num) for group in _in_time(log)])
    return Lines(
        name="bad-share", title="Missed objectives over time", unit="%", window=_window(log), num=log.num,
        series=(Series("missed", points, "s2"),), marks=tuple(marks), zone=zone,
    )  # fmt: skip


def objective_lines(log: TenantLog, objectives: Sequence[Objective], zone: str) -> Lines:
    """Bad ÷ judged of each objective by slice, in multiples of what its target allows: burn by slice."""
    kinds = ("s1", "s2", "s3", "s4", "s5")
    series = []
    for objective, kind in zip(objectives, kinds, strict=False):
        allowed = float(1 - objective.target)
        points = [
            (each.start + log.every / 2, each.bad / (each.good + each.bad) / allowed if allowed else None)
            for each in log.judged
            if each.objective == objective.name
        ]
        if points:
            series.append(Series(objective.name, tuple(points), kind))
    series.append(Series("allowed", ((log.since, 1.0), (log.until, 1.0)), "allowed"))
    return Lines(
        name="burn", title="Burn by objective", unit="×", window=_window(log), num=log.num, series=tuple(series),
        zone=zone,
    )  # fmt: skip


def budget_lines(objective: Objective, hours: Sequence[HourCount], until: float, zone: str) -> Lines:
    """Spent and granted since the month began, hour by hour."""
    first, _ = period_bounds(period_of(until - 1e-3, zone), zone)
    judged = bad = 0
    spent: list[tuple[float, float | None]] = [(first, 0.0)]
    granted: list[tuple[float, float | None]] = [(first, 0.0)]
    for hour in hours:
        end = (hour.hour + 1) * HOUR
        if first < end <= until + HOUR:
            start, before = max(first, end - HOUR), float(int(judged * (1 - objective.target)))
            spent.append((start, float(bad)))  # hours with nothing judged spend nothing and grant nothing
            granted.append((start, before))
            judged, bad = judged + hour.num_judged, bad + hour.num_bad
            spent.append((min(end, until), float(bad)))
            granted.append((min(end, until), float(int(judged * (1 - objective.target)))))
    return Lines(
        name="budget", title="Error budget this month", unit="events", window=f"{objective.name}", num=judged,
        series=(Series("spent", tuple(spent), "s2"), Series("granted", tuple(granted), "allowed")), zone=zone,
    )  # fmt: skip


def forecast_lines(objective: str, hours: Sequence[HourCount], until: float, zone: str) -> Lines:
    """For each of the last days, the forecast of its 24 h as it would have been made at its start, and what came."""
    by_hour = {each.hour: each.num_bad for each in hours}
    last = int(until // HOUR)
    band, came = [], []
    for back in range(MOST_FORECASTS, -1, -1):
        start = last - back * 24
        made = forecast(hours, start * HOUR, zone=zone)
        if made.next_day is None:
            continue
        middle = start * HOUR + DAY / 2
        band.append((middle, made.next_day.low, made.next_day.upper))
        if back:
            came.append((middle, float(sum(by_hour.get(hour, 0) for hour in range(start, start + 24)))))
    return Lines(
        name="forecast", title="Forecast against what came", unit="events", window=f"{objective} / 24h",
        num=len(came),
        series=(Series("what came", tuple(came), "s1"),), bands=(Band("forecast, 80 % band", tuple(band), "s3"),),
        zone=zone,
        empty="A forecast needs four whole days of history.",
    )  # fmt: skip


def charge_bars(log: TenantLog) -> Bars:
    """What was spent of each objective, by whom it is charged to."""
    sums: dict[str, Counter[str]] = {}
    for each in log.judged:
        sums.setdefault(each.objective, Counter()).update(each.charges)
    rows = [
        Bar(
            name,
            tuple((charge, float(num), CHARGE_KINDS.get(Charge(charge), "s4")) for charge, num in counts.most_common()),
        )
        for name, counts in sums.items()
        if counts
    ]
    total = sum(sum(counts.values()) for counts in sums.values())
    return Bars("spend", "Spent by charge", "events", _window(log), total, tuple(rows))


def _window(log: TenantLog) -> str:
    return f"{format_duration(log.until - log.since)} / {format_duration(log.every)}"


def _in_time(log: TenantLog) -> list[TailGroup]:
    return sorted(log.slices, key=lambda group: group.slice or 0.0)


def _latency(figures: Sequence[LatencyFigure], name: str) -> LatencyFigure:
    return next(each for each in figures if each.name == name)


def _quantile(figure: LatencyFigure, level: float) -> QuantileFigure:
    return next(each for each in figure.quantiles if each.quantile == level)


def _value(figure: QuantileFigure) -> float | None:
    return figure.value

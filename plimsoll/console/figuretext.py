"""Figures in words, the same on the terminal and on pages: a value with its interval, or what may be said instead."""

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from plimsoll.analytics.figures import (
    BudgetFigure,
    LatencyFigure,
    ObjectiveFigure,
    QuantileFigure,
    RatioFigure,
    Report,
)
from plimsoll.units import format_count, format_duration

UNKNOWN: Final = "–"


def quantile_of(latency: LatencyFigure, level: float) -> QuantileFigure:
    """One quantile of a latency."""
    return next(each for each in latency.quantiles if each.quantile == level)


def quantile_text(figure: QuantileFigure) -> str:
    """ "412ms", "> 10s" where the answer lies beyond all that was waited, "≥ 1.9s" where only that is sure, or "–"."""
    if figure.value is not None:
        return format_duration(figure.value)
    if figure.above is not None:
        return f"> {format_duration(figure.above)}"
    return f"≥ {format_duration(figure.low)}" if figure.low else UNKNOWN


def interval_text(figure: QuantileFigure) -> str:
    """The 95 % interval: "380ms to 450ms"; empty where the text of the quantile has said it all."""
    if figure.low is None or figure.high is None:
        return ""
    return f"{format_duration(figure.low)} to {format_duration(figure.high)}"


def ratio_text(figure: RatioFigure) -> str:
    """P99 ÷ P50: "2.1 (1.9 to 2.4)"."""
    if figure.value is None:
        return UNKNOWN
    bounds = f" ({figure.low:.2g} to {figure.high:.2g})" if figure.low is not None and figure.high is not None else ""
    return f"{figure.value:.2g}{bounds}"


def percent_text(ratio: float | None, digits: int = 2) -> str:
    """A share as it is measured. 99.999 % is not rounded to 100, nor 0.001 % to 0."""
    if ratio is None:
        return UNKNOWN
    text = f"{ratio * 100:.{digits}f}"
    if (float(text) == 100.0 and ratio < 1.0) or (float(text) == 0.0 and ratio > 0.0):
        return percent_text(ratio, digits + 1) if digits < 8 else f"{ratio * 100:.3g}%"
    return f"{text}%"


def promise_text(objective: ObjectiveFigure) -> str:
    """ "99.5% ≤ 800ms"."""
    share = f"{objective.target * 100:.6g}%"
    return share if objective.below is None else f"{share} ≤ {format_duration(objective.below)}"


def attained_text(objective: ObjectiveFigure) -> str:
    """ "99.61% (99.4% to 99.8%)"."""
    found = objective.attainment
    if found.ratio is None:
        return UNKNOWN
    if found.low is None or found.high is None:
        return percent_text(found.ratio)
    return f"{percent_text(found.ratio)} ({found.low * 100:.4g} to {found.high * 100:.4g})"


def budget_text(budget: BudgetFigure) -> str:
    """ "2026-11: 12 of 40 spent, 28 left"."""
    left = f"{count_text(budget.remaining)} left" if budget.remaining >= 0 else f"{count_text(-budget.remaining)} over"
    return f"{budget.period}: {count_text(budget.spent)} of {count_text(budget.granted)} spent, {left}"


def count_text(num: int) -> str:
    """Whole below 100,000, else with a suffix."""
    return f"{num:,}" if abs(num) < 100_000 else format_count(num, 4)


def instant_text(at: float | None, zone: str) -> str:
    """Date and time in the service's zone."""
    if at is None:
        return UNKNOWN
    return datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S %Z")


def span_text(report: Report) -> str:
    """How long the window was, in words."""
    return UNKNOWN if report.span is None else format_duration(report.span)

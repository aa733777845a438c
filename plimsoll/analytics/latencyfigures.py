"""Quantiles of one latency as they may be shown: plain where all values came, Kaplan–Meier where waits were cut off."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from plimsoll.analytics.figures import LatencyFigure, QuantileFigure, RatioFigure
from plimsoll.analytics.tally import Latency
from plimsoll.slo.censoring import SurvivalCurve
from plimsoll.slo.quantiles import Sketch, tail_ratio

LEVELS: Final = (0.5, 0.9, 0.95, 0.99, 0.999)
_Z_97_5: Final = 2.241402727604947
"""Two-sided 97.5 %: a quotient of two such bounds holds at 95 % (Bonferroni)."""
NORMAL_FROM, NORMAL_TO, ALARM_ABOVE = 1.5, 2.5, 4.0
"""P99 ÷ P50: normal between the first two, an alarm above the third."""

Effects = Mapping[float, float]
"""Design effect by quantile (`independence.py`)."""


def latency_figure(name: str, latency: Latency, effects: Effects | None = None) -> LatencyFigure:
    """A latency of requests."""
    if latency.cut_off.num == 0:
        return token_figure(name, latency.seen, effects)
    curve = _curve(latency)
    return LatencyFigure(
        name=name,
        num=latency.seen.num,
        num_cut_off=latency.cut_off.num,
        quantiles=tuple([_censored(curve, q, (effects or {}).get(q)) for q in LEVELS]),
        p99_over_p50=_censored_ratio(curve),
    )


def weighted_figure(name: str, sketch: Sketch, worth: int) -> LatencyFigure:
    """A distribution of reweighted values, which are worth so many independent ones."""
    ratio = tail_ratio(sketch, effective_num=worth)
    quantiles = [sketch.estimate(q, effective_num=worth) for q in LEVELS]
    return LatencyFigure(
        name=name,
        num=sketch.num,
        num_cut_off=0,
        quantiles=tuple(
            [QuantileFigure(q.quantile, q.value, None, q.low, q.high, None, None, worth) for q in quantiles]
        ),
        p99_over_p50=RatioFigure(ratio.value, ratio.low, ratio.high, ratio_word(ratio.value)),
    )


def token_figure(name: str, sketch: Sketch, effects: Effects | None = None) -> LatencyFigure:
    """A distribution of which every value was seen."""
    return _token_figure(name, sketch, effects) if sketch.num else _of_nothing(name)


@cache
def _of_nothing(name: str) -> LatencyFigure:
    """Once: most groups of a log have no value of one latency or another."""
    return _token_figure(name, Sketch(), None)


def _token_figure(name: str, sketch: Sketch, effects: Effects | None) -> LatencyFigure:
    ratio = tail_ratio(sketch)
    return LatencyFigure(
        name=name,
        num=sketch.num,
        num_cut_off=0,
        quantiles=tuple([_plain(sketch, q, (effects or {}).get(q)) for q in LEVELS]),
        p99_over_p50=RatioFigure(ratio.value, ratio.low, ratio.high, ratio_word(ratio.value)),
    )


def ratio_word(value: float | None) -> str:
    """What a P99 ÷ P50 means."""
    if value is None:
        return "not enough data"
    if value > ALARM_ABOVE:
        return "alarm"
    if value > NORMAL_TO:
        return "wide"
    return "normal" if value >= NORMAL_FROM else "even"


def _plain(sketch: Sketch, q: float, effect: float | None) -> QuantileFigure:
    worth = None if effect is None or sketch.num == 0 else max(1, int(sketch.num / effect))
    found = sketch.estimate(q, effective_num=worth)
    return QuantileFigure(q, found.value, None, found.low, found.high, None, None, worth)


def _curve(latency: Latency) -> SurvivalCurve:
    seen, cut_off = latency.seen.weighted(), latency.cut_off.weighted()
    rows = seen + cut_off
    observed = [True] * len(seen) + [False] * len(cut_off)
    return SurvivalCurve([value for value, _ in rows], observed, [num for _, num in rows])


def _censored(curve: SurvivalCurve, q: float, effect: float | None) -> QuantileFigure:
    found = curve.quantile(q, design_effect=effect or 1.0)
    bounded = found.low is not None and found.high is not None
    worth = None if effect is None else max(1, int(curve.num / effect))
    return QuantileFigure(
        quantile=q,
        value=found.value if bounded else None,
        above=found.above,
        low=found.low,
        high=found.high,
        naive_low=found.naive_low,
        naive_high=found.naive_high,
        effective_num=worth,
    )


def _censored_ratio(curve: SurvivalCurve) -> RatioFigure:
    top, bottom = curve.quantile(0.99, z=_Z_97_5), curve.quantile(0.5, z=_Z_97_5)
    low = top.low / bottom.high if top.low is not None and bottom.high else None
    high = top.high / bottom.low if top.high is not None and bottom.low else None
    known = top.value is not None and bottom.value and low is not None and high is not None
    value = top.value / bottom.value if known and top.value is not None and bottom.value else None
    return RatioFigure(value, low, high, ratio_word(value))

"""Page 7 as values: what may be asked, how far it is, and today's budget curves beside the changed ones. Pure."""

from collections.abc import Sequence
from math import inf
from typing import Final

from msgspec import Struct

from plimsoll.console.plots import Band, Lines, Series
from plimsoll.console.simulated import Curve, FigureEstimate, GroupFigures, Side
from plimsoll.policy.policy import Policy
from plimsoll.policy.presets import PRESETS
from plimsoll.units import format_duration

MOST_CURVES: Final = 8
SHOWN: Final = ("goodput_ratio", "ttft_p99", "e2e_p99")
PATHS: Final = ("share", "trickle", "queue_limit", "queue_timeout")


class Compared(Struct, frozen=True):
    """One figure of one group on both sides; None is unknown."""

    name: str
    tier: str
    figure: str
    today: FigureEstimate | None
    changed: FigureEstimate | None


class WhatIfView(Struct, frozen=True):
    """The page. `state` is "" before anything was asked."""

    state: str
    step: str
    progress: float
    error: str
    change: dict[str, object]
    tenants: tuple[str, ...]
    rules: tuple[str, ...]
    paths: tuple[str, ...]
    charts: tuple[Lines, ...]
    compared: tuple[Compared, ...]


class Told(Struct, frozen=True):
    """How far a job is, and what it found."""

    state: str = ""
    step: str = ""
    progress: float = 0.0
    error: str = ""
    change: dict[str, object] = {}
    today: Side | None = None
    changed: Side | None = None


def what_if_view(policy: Policy, told: Told) -> WhatIfView:
    """The page from a job, or from none."""
    today, changed = told.today, told.changed
    paths = [f"tiers.{tier.name}.{key}" for tier in policy.tiers for key in PATHS[:2]]
    return WhatIfView(
        state=told.state,
        step=told.step,
        progress=told.progress,
        error=told.error,
        change=told.change,
        tenants=tuple([tenant.name for tenant in policy.tenants]),
        rules=tuple(sorted(PRESETS)),
        paths=(*paths, "pools.<pool>.replicas"),
        charts=tuple(curves(today, changed)) if today and changed else (),
        compared=tuple(compared(today.groups, changed.groups)) if today and changed else (),
    )


def curves(today: Side, changed: Side) -> list[Lines]:
    """Budget curves, those that are spent most on either side first."""
    before = {(each.tenant, each.objective): each for each in today.spending}
    after = {(each.tenant, each.objective): each for each in changed.spending}
    keys = sorted(before.keys() | after.keys(), key=lambda key: -max(_burn(before.get(key)), _burn(after.get(key))))
    spent = [key for key in keys if _burn(before.get(key)) or _burn(after.get(key))] or keys[:1]
    return [_curve(key, before.get(key), after.get(key), len(today.seeds)) for key in spent[:MOST_CURVES]]


def _burn(curve: Curve | None) -> float:
    return 0.0 if curve is None else curve.spent[-1] / max(1.0, curve.granted[-1])


def _curve(key: tuple[str, str], today: Curve | None, changed: Curve | None, seeds: int) -> Lines:
    series, bands = [], []
    for name, curve, kind in (("today", today, "before"), ("changed", changed, "s2")):
        if curve is None:
            continue
        series.append(Series(f"spent, {name}", tuple(zip(curve.at, curve.spent, strict=True)), kind))
        points = [
            (at, max(0.0, low), high)
            for at, low, high in zip(curve.at, curve.spent_low, curve.spent_high, strict=True)
            if low is not None and high is not None
        ]
        if points:
            bands.append(Band(f"95 % interval, {name}", tuple(points), kind))
    last = changed or today
    if last is not None:
        series.append(Series("granted, changed", tuple(zip(last.at, last.granted, strict=True)), "allowed"))
    span = last.at[-1] if last else 0.0
    return Lines(
        name="what-if", title=f"{key[0]}: {key[1]}", unit="events", window=format_duration(span), num=seeds,
        series=tuple(series), bands=tuple(bands), zone="",
    )  # fmt: skip


def _bounded(figure: FigureEstimate, most: float) -> FigureEstimate:
    """With an interval that holds possible values only: Student's does not know of limits."""
    low = None if figure.low is None else max(0.0, figure.low)
    return FigureEstimate(figure.mean, low, None if figure.high is None else min(most, figure.high))


def compared(today: Sequence[GroupFigures], changed: Sequence[GroupFigures]) -> list[Compared]:
    """Goodput and tails of all and of each tenant on both sides."""
    after = {(group.kind, group.name, group.tier): group for group in changed}
    found = []
    for group in today:
        other = after.get((group.kind, group.name, group.tier))
        if group.kind in {"all", "tenant"}:
            for figure in SHOWN:
                sides = (group.figures.get(figure), other.figures.get(figure) if other else None)
                if any(sides):
                    most = 1.0 if figure.endswith("_ratio") else inf
                    bounded = [side and _bounded(side, most) for side in sides]
                    found.append(Compared(group.name or "all", group.tier, figure, *bounded))
    return found

"""Of what `plimsoll simulate --json` says, the parts that pages show. Fields are named as there."""

from msgspec import Struct


class FigureEstimate(Struct, frozen=True):
    """A figure over seeds: mean and its 95 % interval; None is unknown."""

    mean: float | None
    low: float | None
    high: float | None


class GroupFigures(Struct, frozen=True):
    """One tenant, tier, or all: figures by name."""

    kind: str
    name: str
    tier: str
    figures: dict[str, FigureEstimate]


class Curve(Struct, frozen=True):
    """One objective's spending over simulated s: means, and the 95 % interval of what was spent."""

    tenant: str
    tier: str
    objective: str
    at: tuple[float, ...]
    granted: tuple[float, ...]
    spent: tuple[float, ...]
    spent_low: tuple[float | None, ...]
    spent_high: tuple[float | None, ...]


class Side(Struct, frozen=True):
    """One simulation."""

    seeds: tuple[int, ...]
    groups: tuple[GroupFigures, ...]
    spending: tuple[Curve, ...]

"""Charts as values: what is drawn, in which unit, over which window, from how many. `plotsvg` draws them.

Nothing here knows of pages: the console and the one-file reports draw the same specifications.
"""

from msgspec import Struct


class Series(Struct, frozen=True):
    """A line. Points are (x, y); y None is unknown and leaves a gap."""

    name: str
    points: tuple[tuple[float, float | None], ...]
    kind: str = "s1"  # class: s1 … s5, allowed, promised


class Band(Struct, frozen=True):
    """An interval along x: (x, low, high)."""

    name: str
    points: tuple[tuple[float, float, float], ...]
    kind: str = "s1"


class Mark(Struct, frozen=True):
    """An instant with something to say about it."""

    x: float
    label: str
    kind: str = "mark"  # mark | worse | better


class Lines(Struct, frozen=True):
    """Lines over time (x: UTC epoch s, or s from the start where `zone` is empty)."""

    name: str  # of the formula on the page of formulas
    title: str
    unit: str  # of the left axis: "s", "%", "req/s", "events"
    window: str
    num: int
    series: tuple[Series, ...]
    bands: tuple[Band, ...] = ()
    marks: tuple[Mark, ...] = ()
    zone: str = "UTC"
    log: bool = False
    right: tuple[Series, ...] = ()
    right_unit: str = ""
    empty: str = ""  # what to say where there is nothing to draw


class Bar(Struct, frozen=True):
    """One row of bars: parts are (name, value, class)."""

    label: str
    parts: tuple[tuple[str, float, str], ...]
    note: str = ""


class Bars(Struct, frozen=True):
    """Rows of stacked bars on one scale."""

    name: str
    title: str
    unit: str
    window: str
    num: int
    rows: tuple[Bar, ...]


class Heat(Struct, frozen=True):
    """A matrix: `values[i][j]` of `rows[i]` because of `columns[j]`."""

    name: str
    title: str
    unit: str
    window: str
    num: int
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


class Gauge(Struct, frozen=True):
    """Load now against safe load. None is unknown; `above` says that safe load is more than that, `below` less."""

    load: float | None
    safe: float | None
    low: float | None
    high: float | None
    above: float | None
    below: float | None
    peak: float | None  # the heaviest minute of the window
    unit: str = "req/s"

"""Charts as values: what is drawn, in which unit, over which window, from how many. `plotsvg` draws them.

Nothing here knows of pages: the console and the one-file reports draw the same specifications.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.analytics.figures import LatencyFigure


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


class TailRow(Struct, frozen=True):
    """One line of `Tails`: P50, P90, P99 with its interval, and what was promised."""

    label: str
    latency: LatencyFigure
    promised: float | None = None  # s, the objective's threshold; None: nothing was promised


class Tails(Struct, frozen=True):
    """Tails side by side on one logarithmic axis."""

    name: str
    title: str
    unit: str
    window: str
    num: int
    rows: tuple[TailRow, ...]
    promise: str = "promised"


class Point(Struct, frozen=True):
    """One of `Points`, with its name beside it."""

    label: str
    x: float
    y: float
    kind: str = "s1"


class Points(Struct, frozen=True):
    """Points between two measures; `line` joins some of them, in the order of x."""

    name: str
    title: str
    unit: str  # of x; y is a bare number
    window: str
    num: int
    points: tuple[Point, ...]
    line: tuple[tuple[float, float], ...] = ()
    across: str = ""  # what x is
    up: str = ""
    empty: str = ""


Chart = Lines | Bars | Heat | Tails | Points


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


def named(chart: Chart, words: Callable[[str], str], said: Callable[[str], str]) -> Chart:
    """The chart with its title and all names in it in other words; `said` is for sentences of marks."""
    title = words(chart.title)
    if isinstance(chart, Lines):
        return replace(
            chart,
            title=title,
            series=tuple([replace(each, name=words(each.name)) for each in chart.series]),
            right=tuple([replace(each, name=words(each.name)) for each in chart.right]),
            bands=tuple([replace(each, name=words(each.name)) for each in chart.bands]),
            marks=tuple([replace(each, label=said(each.label)) for each in chart.marks]),
        )
    if isinstance(chart, Bars):
        rows = [
            replace(row, label=words(row.label), parts=tuple([(words(name), *rest) for name, *rest in row.parts]))
            for row in chart.rows
        ]
        return replace(chart, title=title, rows=tuple(rows))
    if isinstance(chart, Tails):
        return replace(chart, title=title, promise=words(chart.promise))
    if isinstance(chart, Points):
        return replace(chart, title=title, across=words(chart.across), up=words(chart.up))
    return replace(chart, title=title)

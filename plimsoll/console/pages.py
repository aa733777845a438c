"""Renders pages: templates, words, charts and figures in one place. A page is one handler, one view, one template."""

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from plimsoll import __version__
from plimsoll.console import figuretext, plots, plotsvg
from plimsoll.console.sayings import said
from plimsoll.console.words import Words
from plimsoll.units import format_count, format_duration

STATIC: Final = Path(__file__).parent / "static"
PAGES: Final = (
    ("line", "/", "The line"),
    ("tenants", "/tenants", "Tenants"),
    ("diagnose", "/diagnose", "Diagnose"),
    ("cache", "/cache", "Cache"),
    ("replicas", "/replicas", "Replicas"),
    ("journal", "/journal", "Journal"),
    ("whatif", "/what-if", "What if"),
)
"""(name, path, title) in the order of the keys 1 to 7."""


class Frame(Struct, frozen=True):
    """What stands around every page. `state`: live, stale, recorded, loading or error."""

    page: str
    path: str
    language: str
    theme: str  # "": as the system
    state: str
    at: float | None
    zone: str
    source: str
    note: str  # why it is stale, or what failed
    version: int


@cache
def environment() -> Environment:
    """The templates; every value is escaped."""
    made = Environment(
        loader=PackageLoader("plimsoll.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        PAGES=PAGES,
        version=__version__,
        duration=format_duration,
        count=figuretext.count_text,
        short_count=lambda number: format_count(number, 3),
        percent=figuretext.percent_text,
        quantile=figuretext.quantile_text,
        quantile_of=figuretext.quantile_of,
        interval=lambda figure: figuretext.interval_text(figure).replace(" to ", " – "),
        ratio=lambda figure: figuretext.ratio_text(figure).replace(" to ", " – "),
        number=number_text,
        path_of=lambda text: quote(text, safe=""),
    )
    return made


def number_text(value: float | None, digits: int = 3) -> str:
    """A number of few digits, "–" where it is not known."""
    return figuretext.UNKNOWN if value is None else f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def render(template: str, frame: Frame, view: object, **more: object) -> str:
    """A whole page in the frame's language."""
    words = Words(frame.language)
    place = ZoneInfo(frame.zone)

    def clock(at: float | None, form: str = "%H:%M:%S") -> str:
        return figuretext.UNKNOWN if at is None else f"{datetime.fromtimestamp(at, place):{form}}"

    values: dict[str, Any] = {
        "t": words, "frame": frame, "view": view, "clock": clock, "draw": lambda chart: draw(chart, words),
        "gauge": lambda gauge, title: Markup(plotsvg.gauge_svg(gauge, title)),
        "f": lambda name: formula_link(name, words), "said": lambda text: said(text, frame.language),
    } | more  # fmt: skip
    return environment().get_template(template).render(values)


def draw(chart: plots.Lines | plots.Bars | plots.Heat, words: Words) -> Markup:
    """A chart with its title, unit, window, n and the way to its formula; says so where there is nothing to draw."""
    picture = (
        plotsvg.lines_svg(chart)
        if isinstance(chart, plots.Lines)
        else plotsvg.bars_svg(_named(chart, words))
        if isinstance(chart, plots.Bars)
        else plotsvg.heat_svg(chart)
    )
    return Markup(environment().get_template("chart.html").render(
        chart=chart, picture=Markup(picture), key=key_of(chart), t=words, f=lambda name: formula_link(name, words)
    ))  # fmt: skip


def _named(chart: plots.Bars, words: Words) -> plots.Bars:
    """With its rows' names in words."""
    replace = msgspec.structs.replace
    return replace(chart, rows=tuple([replace(row, label=words(row.label)) for row in chart.rows]))


def key_of(chart: plots.Lines | plots.Bars | plots.Heat) -> list[tuple[str, str]]:
    """(class, name) of what the picture shows, each once."""
    found: dict[str, str] = {}
    if isinstance(chart, plots.Lines):
        shown = [each for each in (*chart.series, *chart.right) if any(y is not None for _, y in each.points)]
        for each in shown:
            found.setdefault(f"line {each.kind}", each.name)
        for band in chart.bands:
            found.setdefault(f"band {band.kind}", band.name)
        for mark in chart.marks:
            found.setdefault(
                mark.kind, {"worse": "worse from here", "better": "better from here"}.get(mark.kind, "decision")
            )
    elif isinstance(chart, plots.Bars):
        for row in chart.rows if any(len(row.parts) > 1 for row in chart.rows) else ():
            for name, value, kind in row.parts:
                if value > 0:
                    found.setdefault(f"bar {kind}", name)
    return list(found.items())


def formula_link(name: str, words: Words) -> Markup:
    """The small sign behind a figure that leads to how it is computed."""
    return Markup('<a class="formula" href="/formulas#{}" title="{}">ƒ<span class="unseen"> {}</span></a>').format(
        name, words("how this is computed"), words("how this is computed")
    )

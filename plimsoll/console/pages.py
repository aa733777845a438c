"""Renders pages: templates, words, charts and figures in one place. A page is one handler, one view, one template."""

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from plimsoll import __version__
from plimsoll.console import figuretext, plotsvg
from plimsoll.console.chartfigure import figure
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
    ("capability", "/capability", "Capability"),
)
"""(name, path, title) in the order of the keys 1 to 8."""


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

    def formula(name: str) -> Markup:
        return formula_link(name, words)

    values: dict[str, Any] = {
        "t": words, "frame": frame, "view": view, "clock": clock, "draw": lambda chart: figure(chart, words, formula),
        "gauge": lambda gauge, title: Markup(plotsvg.gauge_svg(gauge, title)),
        "f": formula, "said": lambda text: said(text, frame.language),
    } | more  # fmt: skip
    return environment().get_template(template).render(values)


def formula_link(name: str, words: Words) -> Markup:
    """The small sign behind a figure that leads to how it is computed."""
    return Markup('<a class="formula" href="/formulas#{}" title="{}">ƒ<span class="unseen"> {}</span></a>').format(
        name, words("how this is computed"), words("how this is computed")
    )

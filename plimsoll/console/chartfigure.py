"""A chart as a figure of a page, of the console or of a one-file report: picture, title, unit, window, n, key."""

from collections.abc import Callable
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plimsoll.console import plots, plotsvg
from plimsoll.console.sayings import said
from plimsoll.console.words import Words

_PLACES: Final = {"s1": "on the front", "s3": "behind it"}
_MARKS: Final = {"worse": "worse from here", "better": "better from here"}


def figure(chart: plots.Chart, words: Words, formula: Callable[[str], Markup]) -> Markup:
    """It says so where there is nothing to draw. `formula` makes the way to how a chart of that name is computed."""
    named = plots.named(chart, words, lambda text: said(text, words.language))
    picture = Markup(plotsvg.svg(named))
    return Markup(_environment().get_template("chart.html").render(
        chart=named, picture=picture, key=key_of(named), t=words, f=formula
    ))  # fmt: skip


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("plimsoll.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


def key_of(chart: plots.Chart) -> list[tuple[str, str]]:
    """(class, name) of what the picture shows, each once."""
    if isinstance(chart, plots.Lines):
        return list(_of_lines(chart).items())
    if isinstance(chart, plots.Bars):
        several = [row for row in chart.rows if any(len(each.parts) > 1 for each in chart.rows)]
        parts = [(f"bar {kind}", name) for row in several for name, value, kind in row.parts if value > 0]
        return list(dict(reversed(parts)).items())[::-1]
    if isinstance(chart, plots.Tails):
        promised = [("promised", chart.promise)] if any(row.promised for row in chart.rows) else []
        return [("p50", "P50"), ("p90", "P90"), ("p99", "P99"), ("interval", "P99, 95 % interval"), *promised]
    if isinstance(chart, plots.Points):
        kinds = {point.kind for point in chart.points}
        return [(f"bar {kind}", name) for kind, name in _PLACES.items() if kind in kinds]
    return []


def _of_lines(chart: plots.Lines) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in [each for each in (*chart.series, *chart.right) if any(y is not None for _, y in each.points)]:
        found.setdefault(f"line {each.kind}", each.name)
    for band in chart.bands:
        found.setdefault(f"band {band.kind}", band.name)
    for mark in chart.marks:
        found.setdefault(mark.kind, _MARKS.get(mark.kind, "decision"))
    return found

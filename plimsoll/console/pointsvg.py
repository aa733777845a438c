"""Draws named points between two measures, and the line that joins some of them."""

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from plimsoll.console.plots import Point, Points
from plimsoll.console.plotscale import Scale, value_text

_WIDTH: Final = 560.0
_HEIGHT: Final = 240.0
_LEFT: Final = 54.0
_RIGHT: Final = 20.0
_TOP: Final = 26.0
_BOTTOM: Final = 42.0


def points_svg(chart: Points) -> str:
    """An SVG; empty where there is no point."""
    if not chart.points:
        return ""
    low, high = min(point.y for point in chart.points), max(point.y for point in chart.points)
    margin = 0.15 * (high - low) or max(0.15 * abs(high), 0.5)
    across = Scale(0.0, 1.15 * max(point.x for point in chart.points), (_LEFT, _WIDTH - _RIGHT), log=False)
    up = Scale(low - margin, high + margin, (_HEIGHT - _BOTTOM, _TOP), log=False)
    parts = [*_axes(chart, across, up)]
    if len(chart.line) > 1:
        steps = " L".join([f"{across.at(x):.1f} {up.at(y):.1f}" for x, y in chart.line])
        parts.append(f'<path class="line s1" d="M{steps}"/>')
    parts += [_point(point, chart, across, up) for point in chart.points]
    box = f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}"
    return f'<svg viewBox="{box}" role="img" aria-label={quoteattr(chart.title)}>{"".join(parts)}</svg>'


def _axes(chart: Points, across: Scale, up: Scale) -> Iterator[str]:
    floor = _HEIGHT - _BOTTOM
    for tick in up.ticks():
        y = up.at(tick)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick end" x="{_LEFT - 8:.1f}" y="{y + 4:.1f}">{tick:.3g}</text>'
    for tick in across.ticks():
        x = across.at(tick)
        yield f'<line class="grid faint" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{floor:.1f}"/>'
        yield f'<text class="tick mid" x="{x:.1f}" y="{floor + 16:.1f}">{escape(value_text(tick, chart.unit))}</text>'
    yield f'<text class="tick end" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8:.1f}">{escape(chart.across)} →</text>'
    yield f'<text class="tick" x="4" y="14">↑ {escape(chart.up)}</text>'


def _point(point: Point, chart: Points, across: Scale, up: Scale) -> str:
    x, y = across.at(point.x), up.at(point.y)
    told = f"{point.label}: {chart.up} {point.y:g}, {chart.across} {value_text(point.x, chart.unit)}"
    to_left = x > 0.75 * _WIDTH
    place = f'class="tick end" x="{x - 9:.1f}"' if to_left else f'class="tick" x="{x + 9:.1f}"'
    return (
        f'<circle class="dot {point.kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{escape(told)}</title></circle>'
        f'<text {place} y="{y - 7:.1f}">{escape(point.label)}</text>'
    )

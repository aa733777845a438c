"""Draws chart specifications as SVG: no script, no style attribute, colours by class from the page around it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from math import ceil
from typing import Final
from xml.sax.saxutils import escape, quoteattr
from zoneinfo import ZoneInfo

from plimsoll.console.plots import Bars, Chart, Gauge, Heat, Lines, Mark, Points
from plimsoll.console.plotscale import Scale, value_text
from plimsoll.console.pointsvg import points_svg
from plimsoll.console.tailsvg import tails_svg
from plimsoll.units import format_duration

WIDTH, HEIGHT = 560.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 14.0, 14.0, 26.0
_STEPS: Final = (60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 432000, 864000)
"""s between ticks of time, the first that gives at most six of them is taken."""


def svg(chart: Chart) -> str:
    """The picture of any chart; empty where nothing is known."""
    if isinstance(chart, Lines):
        return lines_svg(chart)
    if isinstance(chart, Bars):
        return bars_svg(chart)
    if isinstance(chart, Points):
        return points_svg(chart)
    return heat_svg(chart) if isinstance(chart, Heat) else tails_svg(chart)


def lines_svg(chart: Lines) -> str:
    """Lines and bands over time; empty where nothing is known."""
    xs = [x for each in (*chart.series, *chart.right) for x, _ in each.points]
    xs += [x for band in chart.bands for x, _, _ in band.points]
    left = _values(chart) or [0.0] * any(y is not None for each in chart.right for _, y in each.points)
    if not xs or not left:
        return ""
    right_pad = 46.0 if chart.right else RIGHT
    across = Scale(min(xs), max(xs), (LEFT, WIDTH - right_pad), log=False)
    low = min(value for value in left if value > 0) if chart.log and max(left) > 0 else 0.0
    log = chart.log and low > 0
    up = Scale(low if log else 0.0, max(left) * (1.0 if log else 1.08), (HEIGHT - BOTTOM, TOP), log=log)
    parts = [*_grid(up, chart.unit, right_pad), *_time_axis(across, chart.zone)]
    parts += [_band(band.points, across, up, band.kind) for band in chart.bands]
    parts += [_path(each.points, across, up, each.kind) for each in chart.series]
    if chart.right:
        parts += _right_axis(chart, across, right_pad)
    parts += [_mark(mark, across) for mark in chart.marks if min(xs) <= mark.x <= max(xs)]
    return _svg(parts, WIDTH, HEIGHT, chart.title)


def _values(chart: Lines) -> list[float]:
    found = [y for each in chart.series for _, y in each.points if y is not None]
    return found + [value for band in chart.bands for _, low, high in band.points for value in (low, high)]


def _svg(parts: Sequence[str], width: float, height: float, title: str) -> str:
    label = quoteattr(title)
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={label}>{"".join(parts)}</svg>'


def _grid(up: Scale, unit: str, right_pad: float) -> Iterator[str]:
    for tick in up.ticks():
        y = up.at(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - right_pad:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick end" x="{LEFT - 8:.1f}" y="{y + 4:.1f}">{escape(value_text(tick, unit))}</text>'


def _time_axis(across: Scale, zone: str) -> Iterator[str]:
    span = across.high - across.low
    step = next((step for step in _STEPS if span / step <= 6), _STEPS[-1])
    place = ZoneInfo(zone) if zone else None
    shift = _offset(across.low, place)
    tick = ceil((across.low + shift) / step) * step - shift if place else 0.0
    while tick <= across.high + 1e-6:
        x = across.at(tick)
        text = format_duration(tick) if place is None else _instant(tick, place, step)
        yield f'<line class="grid faint" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM:.1f}"/>'
        yield f'<text class="tick mid" x="{x:.1f}" y="{HEIGHT - 8:.1f}">{text or "0"}</text>'
        tick += step


def _offset(at: float, place: ZoneInfo | None) -> float:
    offset = datetime.fromtimestamp(at, place).utcoffset() if place else None
    return offset.total_seconds() if offset else 0.0


def _instant(at: float, place: ZoneInfo, step: int) -> str:
    moment = datetime.fromtimestamp(at, place)
    return f"{moment:%m-%d}" if step >= 86400 else f"{moment:%H:%M}"


def _path(points: Sequence[tuple[float, float | None]], across: Scale, up: Scale, kind: str) -> str:
    steps, pen, dots = [], "M", []
    known = [y is not None for _, y in points]
    for place, (x, y) in enumerate(points):
        if y is None:
            pen = "M"
            continue
        steps.append(f"{pen}{across.at(x):.1f} {up.at(y):.1f}")
        alone = not any(known[max(0, place - 1) : place]) and not any(known[place + 1 : place + 2])
        if alone:
            dots.append(f'<circle class="dot {kind}" cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="2.5"/>')
        pen = "L"
    return f'<path class="line {kind}" d="{" ".join(steps)}"/>{"".join(dots)}'


def _band(points: Sequence[tuple[float, float, float]], across: Scale, up: Scale, kind: str) -> str:
    top = [f"{across.at(x):.1f} {up.at(high):.1f}" for x, _, high in points]
    bottom = [f"{across.at(x):.1f} {up.at(low):.1f}" for x, low, _ in reversed(points)]
    return f'<path class="band {kind}" d="M{" L".join(top + bottom)}Z"/>' if points else ""


def _right_axis(chart: Lines, across: Scale, right_pad: float) -> Iterator[str]:
    values = [y for each in chart.right for _, y in each.points if y is not None]
    if not values:
        return
    up = Scale(0.0, 1.0 if chart.right_unit == "%" else max(values) * 1.08, (HEIGHT - BOTTOM, TOP), log=False)
    for tick in up.ticks():
        text = escape(value_text(tick, chart.right_unit))
        yield f'<text class="tick right" x="{WIDTH - right_pad + 6:.1f}" y="{up.at(tick) + 4:.1f}">{text}</text>'
    for each in chart.right:
        yield _path(each.points, across, up, each.kind)


def _mark(mark: Mark, across: Scale) -> str:
    x = across.at(mark.x)
    title = f"<title>{escape(mark.label)}</title>"
    return (
        f'<g class="{mark.kind}">{title}<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4:.1f}" y2="{HEIGHT - BOTTOM:.1f}"/>'
        f'<circle cx="{x:.1f}" cy="{TOP - 6:.1f}" r="4"/></g>'
    )


def bars_svg(chart: Bars) -> str:
    """One row a bar, on one scale."""
    top = max((sum(value for _, value, _ in row.parts) for row in chart.rows), default=0.0)
    if top <= 0.0:
        return ""
    height, label, end = 28.0 * len(chart.rows) + 4, 130.0, WIDTH - 76.0
    parts = []
    for place, row in enumerate(chart.rows):
        y, x = 4 + 28.0 * place, label
        parts.append(
            f'<text class="label end" x="{label - 10:.0f}" y="{y + 15:.0f}">{escape(_short(row.label, 18))}</text>'
        )
        for name, value, kind in row.parts:
            width = value / top * (end - label)
            told = f"<title>{escape(name)}: {escape(value_text(value, chart.unit))}</title>"
            parts.append(
                f'<rect class="bar {kind}" x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="20">{told}</rect>'
            )
            x += width
        note = row.note or value_text(sum(value for _, value, _ in row.parts), chart.unit)
        parts.append(f'<text class="tick" x="{x + 6:.1f}" y="{y + 15:.0f}">{escape(note)}</text>')
    return _svg(parts, WIDTH, height, chart.title)


def heat_svg(chart: Heat) -> str:
    """A matrix; the darker the more. Each cell says its number."""
    top = max((value for row in chart.values for value in row), default=0.0)
    if top <= 0.0:
        return ""
    label, head, size = 110.0, 30.0, 34.0
    width = min(92.0, max(46.0, (WIDTH - label) / max(1, len(chart.columns))))
    whole = label + width * len(chart.columns) + 6
    parts = []
    for j, name in enumerate(chart.columns):
        x = label + width * (j + 0.5)
        parts.append(
            f'<text class="tick mid" x="{x:.1f}" y="{head - 10:.0f}">{escape(_short(name, int(width / 7)))}</text>'
        )
    for i, (name, row) in enumerate(zip(chart.rows, chart.values, strict=True)):
        y = head + size * i
        parts.append(f'<text class="label end" x="{label - 10:.0f}" y="{y + 21:.0f}">{escape(_short(name, 14))}</text>')
        for j, value in enumerate(row):
            level = 0 if value <= 0 else min(5, 1 + int(4.999 * (value / top) ** 0.5))
            x = label + width * j
            told = f"{name} ← {chart.columns[j]}: {value:,.1f} {chart.unit}"
            text = f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
            parts.append(
                f'<rect class="heat h{level}" x="{x:.1f}" y="{y:.0f}" width="{width - 2:.1f}" height="{size - 2:.0f}">'
                f"<title>{escape(told)}</title></rect>"
                f'<text class="tick mid heat{level}" x="{x + width / 2 - 1:.1f}" y="{y + 21:.0f}">{text}</text>'
            )
    return _svg(parts, max(whole, WIDTH), head + size * len(chart.rows) + 2, chart.title)


def gauge_svg(gauge: Gauge, title: str) -> str:
    """A Plimsoll mark: a bar of load, the line at which it is no longer safe, with its interval around it."""
    ends = [each for each in (gauge.load, gauge.peak, gauge.safe, gauge.high, gauge.above, gauge.below) if each]
    if not ends:
        return ""
    width, height, left, right = 280.0, 54.0, 2.0, 278.0
    across = Scale(0.0, max(ends) * 1.12, (left, right), log=False)
    parts = [f'<rect class="water" x="{left}" y="18" width="{right - left}" height="20" rx="2"/>']
    line = gauge.safe or gauge.below
    if gauge.low and gauge.high:
        x, end = across.at(gauge.low), across.at(gauge.high)
        parts.append(f'<rect class="unsure" x="{x:.1f}" y="12" width="{max(2.0, end - x):.1f}" height="32" rx="2"/>')
    if gauge.load:
        over = line is not None and gauge.load > line
        near = line is not None and gauge.load > 0.85 * line
        kind = "over" if over else "near" if near else "fine"
        end = across.at(gauge.load) - left
        parts.append(f'<rect class="load {kind}" x="{left}" y="21" width="{end:.1f}" height="14" rx="2"/>')
    if gauge.peak:
        parts.append(_upright("peak", across.at(gauge.peak), 18, 38))
    if line:
        x = across.at(line)
        parts += [_upright("safe", x, 4, 50), f'<circle class="safe" cx="{x:.1f}" cy="28" r="6"/>']
    elif gauge.above:
        x = across.at(gauge.above)
        parts += [_upright("peak", x, 6, 50), f'<path class="beyond" d="M{x:.1f} 6 l8 5 l-8 5 z"/>']
    return _svg(parts, width, height, title)


def _upright(kind: str, x: float, top: int, bottom: int) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(1, most - 1)] + "…"

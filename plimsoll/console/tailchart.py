"""Draws tails side by side: each tenant's p50, p90, p99 with its interval, and what was promised, on one log axis."""

from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

from plimsoll.analytics.figures import LatencyFigure, QuantileFigure
from plimsoll.units import format_duration

_LEFT: Final = 170.0
_WIDTH: Final = 860.0
_ROW: Final = 26.0
_TOP: Final = 26.0


class TailRow(Struct, frozen=True):
    """One line of the chart."""

    label: str
    latency: LatencyFigure
    promised: float | None = None  # s, the objective's threshold; None: nothing was promised


def tail_chart(rows: list[TailRow]) -> str:
    """An SVG whose colours are those of the page it stands in; empty where no row has a value."""
    shown = [row for row in rows if _ends(row.latency)]
    if not shown:
        return ""
    ends = [end for row in shown for end in (*_ends(row.latency), row.promised) if end]
    scale = _Scale(min(ends), max(ends))
    height = _TOP + _ROW * len(shown) + 8
    lines = [f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" class="tails">', *scale.grid(height)]
    for i, row in enumerate(shown):
        lines += _line(row, scale, _TOP + _ROW * (i + 0.5))
    return "\n".join([*lines, "</svg>"])


class _Scale:
    """Seconds to x, logarithmic, over whole decades' thirds so that neighbours stay readable."""

    def __init__(self, low: float, high: float) -> None:
        self.low = floor(log10(low) * 3 - 1e-9) / 3
        self.high = max(ceil(log10(high) * 3 + 1e-9) / 3, self.low + 1 / 3)

    def x(self, seconds: float) -> float:
        """Where that duration lies."""
        return _LEFT + (log10(seconds) - self.low) / (self.high - self.low) * (_WIDTH - _LEFT - 20)

    def grid(self, height: float) -> list[str]:
        """Lines at 1, 2 and 5 of each decade, fewer where they would crowd."""
        steps = (1, 2, 5) if self.high - self.low < 3 else (1,)
        ticks = [step * 10.0**decade for decade in range(floor(self.low), ceil(self.high) + 1) for step in steps]
        found = []
        for tick in ticks:
            if self.low <= log10(tick) <= self.high:
                x = self.x(tick)
                found.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6:.0f}" y2="{height:.0f}" class="grid"/>')
                found.append(f'<text x="{x:.1f}" y="14" class="tick">{format_duration(tick)}</text>')
        return found


def _line(row: TailRow, scale: _Scale, y: float) -> list[str]:
    p50, p90, p99 = (_quantile(row.latency, q) for q in (0.5, 0.9, 0.99))
    lines = [f'<text x="{_LEFT - 12:.0f}" y="{y + 4:.1f}" class="label">{escape(row.label)}</text>']
    if p99.low and p99.high:
        begin, end = scale.x(p99.low), scale.x(p99.high)
        lines.append(
            f'<rect x="{begin:.1f}" y="{y - 7:.1f}" width="{max(end - begin, 1):.1f}" height="14" class="interval"/>'
        )
    known = [scale.x(end) for end in (p50.value, p90.value, p99.value or p99.above or p99.low) if end]
    if known:
        lines.append(f'<line x1="{known[0]:.1f}" x2="{known[-1]:.1f}" y1="{y:.1f}" y2="{y:.1f}" class="tail"/>')
    for figure, size in ((p50, 5.0), (p90, 3.5), (p99, 5.0)):
        if figure.value:
            title = f"p{figure.quantile * 100:g}: {format_duration(figure.value)}"
            lines.append(
                f'<circle cx="{scale.x(figure.value):.1f}" cy="{y:.1f}" r="{size}" class="p{figure.quantile * 100:g}">'
                f"<title>{title}</title></circle>"
            )
    if row.promised:
        x = scale.x(row.promised)
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9:.1f}" y2="{y + 9:.1f}" class="promised">'
            f"<title>promised: {format_duration(row.promised)}</title></line>"
        )
    open_end = (p99.above or p99.low) if p99.value is None else None  # beyond it the p99 lies, nobody knows where
    if open_end:
        lines.append(f'<text x="{scale.x(open_end):.1f}" y="{y + 5:.1f}" class="above">▸</text>')
    return lines


def _ends(latency: LatencyFigure) -> list[float]:
    """Every duration that the row draws."""
    figures = [_quantile(latency, q) for q in (0.5, 0.9, 0.99)]
    p99 = figures[-1]
    return [end for end in (*[each.value for each in figures], p99.low, p99.high, p99.above) if end]


def _quantile(latency: LatencyFigure, level: float) -> QuantileFigure:
    return next(each for each in latency.quantiles if each.quantile == level)

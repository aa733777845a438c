"""Draws tails side by side: each tenant's p50, p90, p99 with its interval, and what was promised, on one log axis."""

from typing import Final
from xml.sax.saxutils import escape, quoteattr

from plimsoll.analytics.figures import LatencyFigure, QuantileFigure
from plimsoll.console.plots import TailRow, Tails
from plimsoll.console.plotscale import Scale
from plimsoll.units import format_duration

_LEFT: Final = 170.0
_WIDTH: Final = 860.0
_ROW: Final = 26.0
_TOP: Final = 26.0


def tails_svg(chart: Tails) -> str:
    """An SVG whose colours are those of the page it stands in; empty where no row has a value."""
    shown = [row for row in chart.rows if _ends(row.latency)]
    if not shown:
        return ""
    ends = [end for row in shown for end in (*_ends(row.latency), row.promised) if end]
    scale = Scale(min(ends), max(ends), (_LEFT, _WIDTH - 20.0), log=True)
    height = _TOP + _ROW * len(shown) + 8
    box = f"0 0 {_WIDTH:.0f} {height:.0f}"
    lines = [f'<svg viewBox="{box}" role="img" aria-label={quoteattr(chart.title)} class="tails">']
    for tick in scale.ticks(few=3.0):  # the axis is long
        x = scale.at(tick)
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6:.0f}" y2="{height:.0f}" class="grid"/>')
        lines.append(f'<text x="{x:.1f}" y="14" class="tick mid">{format_duration(tick)}</text>')
    for i, row in enumerate(shown):
        lines += _line(row, chart.promise, scale, _TOP + _ROW * (i + 0.5))
    return "\n".join([*lines, "</svg>"])


def _line(row: TailRow, promise: str, scale: Scale, y: float) -> list[str]:
    p50, p90, p99 = (_quantile(row.latency, q) for q in (0.5, 0.9, 0.99))
    lines = [f'<text x="{_LEFT - 12:.0f}" y="{y + 4:.1f}" class="label end">{escape(row.label)}</text>']
    if p99.low and p99.high:
        begin, end = scale.at(p99.low), scale.at(p99.high)
        lines.append(
            f'<rect x="{begin:.1f}" y="{y - 7:.1f}" width="{max(end - begin, 1):.1f}" height="14" class="interval"/>'
        )
    known = [scale.at(end) for end in (p50.value, p90.value, p99.value or p99.above or p99.low) if end]
    if known:
        lines.append(f'<line x1="{known[0]:.1f}" x2="{known[-1]:.1f}" y1="{y:.1f}" y2="{y:.1f}" class="tail"/>')
    for figure, size in ((p50, 5.0), (p90, 3.5), (p99, 5.0)):
        if figure.value:
            title = f"p{figure.quantile * 100:g}: {format_duration(figure.value)}"
            lines.append(
                f'<circle cx="{scale.at(figure.value):.1f}" cy="{y:.1f}" r="{size}" class="p{figure.quantile * 100:g}">'
                f"<title>{title}</title></circle>"
            )
    if row.promised:
        x = scale.at(row.promised)
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9:.1f}" y2="{y + 9:.1f}" class="promised">'
            f"<title>{escape(promise)}: {format_duration(row.promised)}</title></line>"
        )
    open_end = (p99.above or p99.low) if p99.value is None else None  # beyond it the p99 lies, nobody knows where
    if open_end:
        lines.append(f'<text x="{scale.at(open_end):.1f}" y="{y + 5:.1f}" class="above">▸</text>')
    return lines


def _ends(latency: LatencyFigure) -> list[float]:
    """Every duration that the row draws."""
    figures = [_quantile(latency, q) for q in (0.5, 0.9, 0.99)]
    p99 = figures[-1]
    return [end for end in (*[each.value for each in figures], p99.low, p99.high, p99.above) if end]


def _quantile(latency: LatencyFigure, level: float) -> QuantileFigure:
    return next(each for each in latency.quantiles if each.quantile == level)

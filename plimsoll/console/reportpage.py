"""A report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from typing import Any, Final

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from msgspec import Struct

from plimsoll import __version__
from plimsoll.analytics.figures import GroupFigures, LatencyFigure, Report
from plimsoll.analytics.latencyfigures import LEVELS
from plimsoll.console import figuretext
from plimsoll.console.chartfigure import figure
from plimsoll.console.plots import Chart, TailRow, Tails
from plimsoll.console.words import Words
from plimsoll.foreign.account import Account

_OUTCOMES: Final = {
    "completed": "good",
    "rejected": "refused",
    "shed": "refused",
    "expired": "refused",
    "cancelled": "left",
    "aborted": "left",
    "failed": "bad",
    "evicted": "bad",
    "interrupted": "bad",
}
"""Colours by kind: completed, refused by us or by limits, left by the client, broken off."""

_TAILS: Final = (("Time to first token", "ttft"), ("Between tokens", "itl"), ("Whole answer", "e2e"))


class Part(Struct, frozen=True):
    """One coloured stretch of a bar."""

    name: str
    kind: str
    num: int
    percent: float


class GroupView(Struct, frozen=True):
    """One row of the page's tables."""

    label: str
    figures: GroupFigures
    parts: tuple[Part, ...]
    latencies: dict[str, LatencyFigure]


class ReportView(Struct, frozen=True):
    """All that the template shows."""

    report: Report
    zone: str
    groups: tuple[tuple[str, tuple[GroupView, ...]], ...]  # (heading, rows)
    outcomes: tuple[str, ...]  # those that occurred
    charts: tuple[Chart, ...]
    levels: tuple[float, ...]
    version: str


def page(report: Report, zone: str, account: Account | None = None) -> str:
    """The whole page; with an `account`, what was made of the files of others that the report is of."""
    environment = Environment(
        loader=PackageLoader("plimsoll.console"), autoescape=select_autoescape(["html"]), trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    texts: dict[str, Any] = {name: each for name, each in vars(figuretext).items() if callable(each)}
    texts["draw"] = lambda chart: figure(chart, Words("en"), lambda _: Markup())
    return environment.get_template("report.html").render(view=view_of(report, zone), account=account, **texts)


def view_of(report: Report, zone: str) -> ReportView:
    """The report arranged for the template."""
    causes = report.causes if any(each.name for each in report.causes) else ()
    sections = (
        ("Tenants", report.tenants),
        ("Tiers", report.tiers),
        ("Causes", causes),
        ("All", (report.total,)),
    )
    return ReportView(
        report=report,
        zone=zone,
        groups=tuple([(title, tuple([_group(each) for each in groups])) for title, groups in sections if groups]),
        outcomes=tuple([name for name, num in report.total.outcomes.items() if num]),
        charts=tuple([_tails(report, title, name) for title, name in _TAILS]),
        levels=LEVELS,
        version=__version__,
    )


def _group(figures: GroupFigures) -> GroupView:
    parts = [
        Part(name, _OUTCOMES[name], num, 100.0 * num / figures.num) for name, num in figures.outcomes.items() if num
    ]
    order = list(_OUTCOMES)
    return GroupView(
        label=_label(figures),
        figures=figures,
        parts=tuple(sorted(parts, key=lambda part: order.index(part.name))),
        latencies=_latencies(figures),
    )


def _tails(report: Report, title: str, name: str) -> Tails:
    rows = [_tail(each, name) for each in report.tenants]
    return Tails("tails", title, "s", figuretext.span_text(report), sum(row.latency.num for row in rows), tuple(rows))


def _tail(figures: GroupFigures, name: str) -> TailRow:
    promised = next((each.below for each in figures.objectives if each.sli == name), None)
    return TailRow(_label(figures), _latencies(figures)[name], promised)


def _label(figures: GroupFigures) -> str:
    if figures.kind == "tenant":
        return f"{figures.name} ({figures.tier})"
    return figures.name or "(no cause given)"


def _latencies(figures: GroupFigures) -> dict[str, LatencyFigure]:
    return {each.name: each for each in (*figures.latencies, figures.itl)}

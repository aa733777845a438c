"""The report's page: whole, self-contained, and safe from what clients call themselves."""

from html.parser import HTMLParser
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.analytics.figures import QuantileFigure, RatioFigure
from plimsoll.analytics.report import report_of
from plimsoll.console.figuretext import (
    attained_text,
    budget_text,
    interval_text,
    percent_text,
    promise_text,
    quantile_text,
    ratio_text,
)
from plimsoll.console.reportpage import page
from plimsoll.slo.outcome import Outcome, Reason
from tests.analytics.records import POLICY, record

_VOID = {"meta", "link", "br", "circle", "path", "line", "rect"}


class _Page(HTMLParser):
    """Holds that tags are balanced; gathers texts and what would be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.loaded: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loaded += [f"{name}={value}" for name, value in attrs if name in {"src", "href"}]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def read(html: str) -> _Page:
    parsed = _Page()
    parsed.feed(html)
    assert parsed.open == []
    return parsed


def test_the_page_stands_alone_and_shows_every_group() -> None:
    log = [record(i, i, ttft=0.2 + (i % 50) / 40, cause="chat" if i % 2 else "agent") for i in range(900)]
    log += [record(900 + i, i, tenant="batch", tier="bronze") for i in range(20)]
    log += [
        record(950 + i, i, ttft=None, lasted=1.0, outcome=Outcome.ABORTED, reason=Reason.CLIENT_LEFT) for i in range(30)
    ]
    html = page(report_of(log, POLICY, source="data"), "Asia/Shanghai")
    parsed = read(html)
    assert parsed.loaded == []
    assert "url(" not in html
    assert "script" not in parsed.tags
    for text in ("acme (gold)", "batch (bronze)", "chat", "agent", "client_left", "99% ≤ 1s"):
        assert text in parsed.texts
    assert "svg" in parsed.tags
    assert "promised: 1s" in parsed.texts
    assert "CST" in html


def test_names_are_text_and_never_markup() -> None:
    name = "<script>alert('x')</script>&\"'"
    html = page(report_of([record(i, i, cause=name) for i in range(500)], POLICY, source=name), "UTC")
    parsed = read(html)
    assert "script" not in parsed.tags
    assert name in parsed.texts


def test_an_empty_window_has_a_page_too() -> None:
    parsed = read(page(report_of([], POLICY, source="data"), "UTC"))
    assert "No request ended in this window." in parsed.texts


@given(st.floats(0, 1))
def test_a_share_is_never_rounded_to_all_or_none(ratio: float) -> None:
    text = percent_text(ratio)
    if 1e-6 < ratio < 1 - 1e-6:
        assert float(text.rstrip("%")) not in {0.0, 100.0}
    assert percent_text(1.0) == "100.00%"
    assert percent_text(0.0) == "0.00%"
    assert percent_text(None) == "–"


@pytest.mark.parametrize(
    ("figure", "text", "interval"),
    [
        (QuantileFigure(0.5, 0.412, None, 0.38, 0.45, None, None, None), "412ms", "380ms to 450ms"),
        (QuantileFigure(0.99, None, None, 1.9, None, None, None, None), "≥ 1.9s", ""),
        (QuantileFigure(0.99, None, 10.0, 2.0, None, 1.0, None, None), "> 10s", ""),
        (QuantileFigure(0.99, None, None, None, None, None, None, None), "–", ""),
    ],
)
def test_what_is_not_known_is_said(figure: QuantileFigure, text: str, interval: str) -> None:
    assert (quantile_text(figure), interval_text(figure)) == (text, interval)


def test_ratios_objectives_and_budgets_in_words() -> None:
    assert ratio_text(RatioFigure(2.06, 1.9, 2.4, "normal")) == "2.1 (1.9 to 2.4)"
    assert ratio_text(RatioFigure(None, None, inf, "not enough data")) == "–"
    log = [record(i, i, ttft=2.0 if i < 3 else 0.5) for i in range(200)]
    ttft = report_of(log, POLICY).tenants[0].objectives[0]
    assert promise_text(ttft) == "99% ≤ 1s"
    assert attained_text(ttft) == "98.50% (95.68 to 99.69)"
    assert budget_text(ttft.budgets[0]) == "2026-11: 3 of 2 spent, 1 over"

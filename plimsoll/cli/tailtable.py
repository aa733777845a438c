"""Tails as a table on a terminal."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.analytics.figures import LatencyFigure
from plimsoll.analytics.tails import TailGroup, Tails
from plimsoll.console.figuretext import (
    count_text,
    instant_text,
    interval_text,
    quantile_of,
    quantile_text,
    ratio_text,
)

MAX_ROWS = 200
_WORDS = {"alarm": "red", "wide": "yellow", "normal": "green"}


def show(found: Tails, zone: str, console: Console) -> None:
    """One row a group (and slice), the largest groups first; all of it is in --json."""
    console.print(f"[bold]{escape(found.source)}[/]: {count_text(found.num)} requests")
    if not found.num:
        console.print("No request ended in this window.")
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    names = [*found.by, *(["from"] if found.every is not None else [])]
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in (
        "TTFT p99÷p50",
        "TTFT p50",
        "p95",
        "p99 (95 %)",
        "ITL p50",
        "p99",
        "E2E p50",
        "p99 (95 %)",
        "missed",
        "n",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for group in found.groups[:MAX_ROWS]:
        when = [] if found.every is None else [instant_text(group.slice, zone)]
        table.add_row(*(escape(group.labels[name]) or "–" for name in found.by), *when, *_cells(group))
    table.add_section()
    table.add_row(*("all", *[""] * (len(names) - 1))[: len(names)], *_cells(found.whole))
    console.print(table)
    if len(found.groups) > MAX_ROWS:
        console.print(f"[dim]{len(found.groups) - MAX_ROWS} rows more are in --json.[/]")
    if found.num_folded:
        console.print(f"[dim]{found.num_folded} smaller groups are one: (others).[/]")
    if found.violations is not None:
        law = found.violations
        console.print(
            f"Violations grow with a tenant's requests a minute to the power {law.exponent:.2f} "
            f"({law.low:.2f} to {law.high:.2f}); above 1 there is a knee."
        )


def _cells(group: TailGroup) -> list[str]:
    of = {latency.name: latency for latency in group.latencies}
    ttft, e2e = of["ttft"], of["e2e"]
    word = _WORDS.get(ttft.p99_over_p50.word)
    ratio = ratio_text(ttft.p99_over_p50)
    return [
        f"[{word}]{ratio}[/]" if word else ratio,
        quantile_text(quantile_of(ttft, 0.5)),
        quantile_text(quantile_of(ttft, 0.95)),
        _with_interval(ttft),
        quantile_text(quantile_of(group.itl, 0.5)),
        quantile_text(quantile_of(group.itl, 0.99)) + _uncut(group),
        quantile_text(quantile_of(e2e, 0.5)),
        _with_interval(e2e),
        count_text(group.num_bad),
        count_text(group.num) + (f" +{count_text(ttft.num_cut_off)} cut off" if ttft.num_cut_off else ""),
    ]


def _uncut(group: TailGroup) -> str:
    """The P99 of gaps as if no stream had been cut, where some were."""
    if group.itl_uncut is None:
        return ""
    unseen = f", {group.unseen_ratio:.0%} of ends never seen" if group.unseen_ratio > 0.01 else ""
    return f" [dim]({quantile_text(quantile_of(group.itl_uncut, 0.99))} uncut{unseen})[/]"


def _with_interval(latency: LatencyFigure) -> str:
    figure = quantile_of(latency, 0.99)
    interval = interval_text(figure) if figure.value is not None else ""
    return quantile_text(figure) + (f" [dim]({interval})[/]" if interval else "")

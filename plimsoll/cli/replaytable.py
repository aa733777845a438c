"""What `plimsoll replay` shows: a progress bar while it runs, a table at the end."""

import sys
from collections import Counter
from types import TracebackType
from typing import Self

from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from plimsoll.cli.output import Terminal, terminal
from plimsoll.load.plan import Planned
from plimsoll.load.result import Seen
from plimsoll.load.summary import Summary, TenantSummary
from plimsoll.slo.quantiles import Estimate


class Meter:
    """The progress bar, on stderr and only on a terminal: ended requests of all, with what became of them."""

    def __init__(self, planned: tuple[Planned, ...]) -> None:
        self._progress = Progress(
            TextColumn("replay"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn(f"of {planned[-1].at:.0f} s"),
            TextColumn("{task.description}"),
            console=Terminal(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("", total=len(planned))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def show(self, outcomes: Counter[str]) -> None:
        """Draw the counts so far."""
        others = " ".join(f"{name} {num}" for name, num in outcomes.items() if name != Seen.COMPLETED)
        self._progress.update(self._task, completed=outcomes.total(), description=others)


def summary_table(summary: Summary) -> None:
    """Print the report for people."""
    console = terminal()
    title = f"{summary.run}: {summary.num_planned} requests in {summary.duration:.1f} s"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("tenant", "sent", "whole"):
        table.add_column(name, justify="left" if name == "tenant" else "right")
    for name in ("TTFT", "ITL", "E2E"):
        table.add_column(f"{name} p50     p99", justify="right", no_wrap=True)
    table.add_column("other endings")
    for part in summary.tenants:
        table.add_row(*_cells(part.tenant, part))
    table.add_section()
    table.add_row(*_cells("all", summary.total))
    console.print(table)
    late = summary.lateness
    console.print(
        f"The client itself was late by {_quantile(late.p50)} at p50, {_quantile(late.p99)} at p99, "
        f"{_ms(late.max)} at most."
    )
    if summary.prompt_tokens_ratio is not None:
        console.print(f"Prompt tokens counted by the engine ÷ asked for: {summary.prompt_tokens_ratio:.4f}.")
    if summary.stopped:
        console.print("Ended early: requests stopped in flight or not sent are counted as such.")


def _cells(name: str, part: TenantSummary) -> list[str]:
    completed = part.outcomes.get(Seen.COMPLETED, 0)
    figures = [f"{_quantile(of.p50):>6} {_quantile(of.p99):>7}" for of in (part.ttft, part.itl, part.e2e)]
    return [name, str(part.num_planned), str(completed), *figures, endings(part)]


def endings(part: TenantSummary) -> str:
    """How many ended otherwise than with their whole answer, and why."""
    others = ", ".join(f"{num} {outcome}" for outcome, num in part.outcomes.items() if outcome != Seen.COMPLETED)
    reasons = ", ".join(f"{reason} {num}" for reason, num in part.reasons.items())
    return others + (f" ({reasons})" if reasons else "")


def _quantile(of: Estimate) -> str:
    """The value; where too few values bound it, what is known: "≥ low"."""
    if of.value is not None or of.low is None:
        return _ms(of.value)
    return f"≥{_ms(of.low)}"


def _ms(seconds: float | None) -> str:
    """A time in the unit that reads best; – for unknown."""
    if seconds is None:
        return "–"
    if seconds >= 1:
        return f"{seconds:.1f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 0.1 else f"{seconds * 1e3:.1f}ms"

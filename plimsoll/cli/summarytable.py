"""A simulation's summary on a terminal: who got what, how full the pools were, which budgets are gone."""

from typing import Final

from rich.markup import escape
from rich.table import Table

from plimsoll.cli.output import terminal
from plimsoll.sim.estimate import Estimate
from plimsoll.sim.summary import GroupSummary, PoolSummary, Summary
from plimsoll.units import format_duration

WIDTH: Final = 150
"""Columns where there is no terminal to ask."""
_TIMES: Final = ("ttft_p50", "ttft_p99", "itl_p99", "e2e_p99")


def show(summary: Summary) -> None:
    """The figures that are looked at first."""
    console = terminal(WIDTH)
    if not summary.complete:
        console.print("[yellow]stopped early: these figures cover what was simulated by then[/]")
    console.print(_groups(summary))
    console.print(_pools(summary))
    for left in summary.left_out:
        told = f"{left.num:,} rows of {escape(left.file)}, the first: {escape(left.first)}"
        console.print(f"[yellow]left out[/] {told}", soft_wrap=True)
    for note in summary.notes:
        console.print(f"[dim]{escape(note)}[/]", soft_wrap=True)


def _groups(summary: Summary) -> Table:
    seeds = len(summary.seeds)
    title = f"{format_duration(summary.simulated)} simulated, {seeds} seed{'s' * (seeds != 1)}"
    table = Table(title=title, box=None, pad_edge=False, title_justify="left", padding=(0, 2, 0, 0))
    headings = (
        "who",
        "requests",
        "completed",
        "ttft p50",
        "ttft p99",
        "itl p99",
        "e2e p99",
        "goodput",
        "tightest budget",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in {"who", "tightest budget"} else "right", no_wrap=True)
    for group in summary.groups:
        table.add_row(*_row(group))
    return table


def _row(group: GroupSummary) -> tuple[str, ...]:
    who = {"all": "all", "tier": f"tier {group.name}"}.get(group.kind, f"{group.name} ({group.tier})")
    num = sum(group.num)
    completed = sum(outcomes.get("completed", 0) for outcomes in group.outcomes)
    times = [time_text(group.figures.get(name)) for name in _TIMES]
    good = group.figures.get("goodput_ratio")
    ratio = "–" if good is None or good.mean is None else f"{good.mean:.1%}"
    return escape(who), f"{num:,}", f"{completed / num:.1%}" if num else "–", *times, ratio, _budget(group)


def _budget(group: GroupSummary) -> str:
    """The objective that has used most of its budget."""
    spent = [
        (estimate.mean, name.removeprefix("budget_spent_ratio:"))
        for name, estimate in group.figures.items()
        if name.startswith("budget_spent_ratio:") and estimate.mean is not None
    ]
    if not spent:
        return ""
    most, name = max(spent)
    colour = "red" if most > 1.0 else "yellow" if most > 0.8 else "default"
    return f"[{colour}]{escape(name)} {most:.0%} spent[/]"


def time_text(estimate: Estimate | None) -> str:
    """A latency and the farther end of its interval; – where there are too few values for it."""
    if estimate is None or estimate.mean is None:
        return "–"
    if estimate.low is None or estimate.high is None or estimate.mean <= 0.0:
        return format_duration(estimate.mean)
    off = max(estimate.high - estimate.mean, estimate.mean - estimate.low) / estimate.mean
    return f"{format_duration(estimate.mean)} ±{off:.0%}"


def _pools(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("pool", "replicas", "busy", "running", "waiting", "kv", "prefix hits", "preempted"):
        table.add_column(heading, justify="left" if heading == "pool" else "right", no_wrap=True)
    for pool in summary.pools:
        table.add_row(escape(pool.name), str(pool.num_replicas), *_fullness(pool))
    return table


def _fullness(pool: PoolSummary) -> tuple[str, ...]:
    figures = {name: estimate.mean for name, estimate in pool.figures.items()}

    def text(name: str, form: str) -> str:
        value = figures.get(name)
        return "–" if value is None else format(value, form)

    return (
        text("busy_ratio", ".0%"), text("running", ".3g"), text("waiting", ".3g"), text("kv_usage", ".0%"),
        text("hit_ratio", ".0%"), text("preemptions", ",.0f"),
    )  # fmt: skip

"""What was learnt of a log, beside traffic drawn from it, as tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.cli.output import terminal
from plimsoll.sim.learning import Learnt
from plimsoll.sim.likeness import Likeness, Pairs
from plimsoll.units import format_duration

WIDTH: Final = 120
_TRAFFIC: Final = (
    "requests",
    "rate off by",
    "burstiness",
    "prompt p50 / p90 / p99",
    "output p50 / p90 / p99",
    "correlation",
)
_SESSIONS: Final = ("turns p50 / p90", "between turns p50 / p90", "a later turn adds p50 / p90")
_BEGINNINGS: Final = ("all begin with", "prompts repeat", "upstream p50 / p90")


def show(found: Learnt, alike: Sequence[Likeness], out: Path) -> None:
    """Log and drawn traffic, line by line; sessions only where there are some; then what could not be learnt."""
    console = terminal(WIDTH)
    console.print(f"Learnt {len(found.tenants)} tenants over {format_duration(found.duration)}; drawn from {out}:")
    console.print(_table(_TRAFFIC, alike, _traffic))
    if any(each.turns for each in alike):
        console.print(_table(_SESSIONS, [each for each in alike if each.turns], _sessions))
    some = [each for each in alike if each.shared[0][0] or each.repeated or each.upstream]
    if some:
        console.print(_table(_BEGINNINGS, some, _beginnings))
    _untold(console, found)


def _table(headings: Sequence[str], alike: Sequence[Likeness], cells: Callable[[Likeness, int], list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("tenant", "", *headings):
        table.add_column(heading, justify="left" if heading in {"tenant", ""} else "right", no_wrap=True)
    for each in alike:
        for side, word in enumerate(("log", "drawn")):
            table.add_row(escape(each.tenant) if side == 0 else "", word, *cells(each, side))
    return table


def _traffic(each: Likeness, side: int) -> list[str]:
    return [
        f"{each.num[side]:,}",
        "" if side == 0 else f"{each.rate_error:.1%} (luck {each.chance_error:.1%})",
        f"{each.burstiness[side]:.2f}",
        _row(each.prompt, side),
        _row(each.output, side),
        f"{each.correlation[side]:.2f}",
    ]


def _sessions(each: Likeness, side: int) -> list[str]:
    return [
        _row(each.turns[:2], side),
        _row(each.think[:2], side, format_duration),
        _row(each.followup[:2], side),
    ]


def _beginnings(each: Likeness, side: int) -> list[str]:
    tokens, variants = each.shared[side]
    return [
        f"{tokens:,} tokens, one of {variants:,}" if tokens else "–",
        f"{each.repeated[side]:.0%}" if each.repeated else "–",
        _row(each.upstream[:2], side, format_duration) or "–",
    ]


def _row(pairs: Pairs, side: int, told: Callable[[float], str] = "{:,.0f}".format) -> str:
    return " / ".join(told(pair[side]) for pair in pairs)


def _untold(console: Console, found: Learnt) -> None:
    for each in found.tenants:
        for note in each.untold:
            console.print(f"[yellow]{escape(each.tenant)}[/]: {escape(note)}", soft_wrap=True)
    for name, num in found.too_few:
        console.print(f"[yellow]left out[/] {escape(name)}: {num} requests are too few", soft_wrap=True)

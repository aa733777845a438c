"""The answer of `plimsoll headroom` on a terminal: one sentence first, then why, then what breaks in which order."""

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from rich.markup import escape
from rich.table import Table

from plimsoll.cli.output import terminal
from plimsoll.policy.policy import Policy
from plimsoll.sim.headroom import TOLERANCE, Headroom, Line
from plimsoll.sim.trial import Breach, Key
from plimsoll.units import format_duration, format_ratio

WIDTH: Final = 120
_BAR: Final = 24


def show(found: Headroom, policy: Policy, what: str) -> None:
    """Print it; `what` is whose load grows, "" for the whole mix."""
    console = terminal(WIDTH)
    for line in sentences(found, policy, what):
        console.print(line, soft_wrap=True)
    console.print(_table(found, policy))
    console.print(f"[dim]{escape(_small_print(found))}[/]")


def sentences(found: Headroom, policy: Policy, what: str) -> list[str]:
    """The answer, which promise breaks first, and how."""
    lines = [] if found.complete else ["[yellow]stopped early, or no break was found: not the whole answer[/]"]
    lines.append(_answer(found, escape(what) or "This mix"))
    for number, (name, num) in enumerate(found.first[:3]):
        key = _key(name)
        often = "" if num == len(found.seeds) else f" (in {num} of {len(found.seeds)} runs)"
        lead = "[bold]First to break:[/] " if number == 0 else "             or "
        lines.append(f"{lead}{_promise(policy, key)}{often}")
    if found.breach is not None:
        lines += _how(found.breach, policy.service.timezone)
    return lines


def _answer(found: Headroom, what: str) -> str:
    factor = found.factor
    if factor.mean is None:
        held = [line for line in found.lines if line.beyond]
        most = max((line.beyond or 0.0 for line in held), default=0.0)
        return f"[bold]{what}: no break found[/] up to {most:.3g} times its load."
    more = factor.mean - 1.0
    between = ""
    if factor.low is not None and factor.high is not None:
        between = f" ({factor.low:.2f} – {factor.high:.2f} at 95 %)"
    rate = found.rate_now * abs(more)
    if more >= 0.0:
        return (
            f"[bold green]{what} can grow to {factor.mean:.2f} times its load[/]{between}: "
            f"{rate:,.3g} requests a second on top of {found.rate_now:,.3g}."
        )
    return (
        f"[bold red]{what} is over the line: it holds at {factor.mean:.2f} times its load[/]{between}, "
        f"{rate:,.3g} requests a second too many of {found.rate_now:,.3g}."
    )


def _how(breach: Breach, zone: str) -> list[str]:
    """Where and why, in words."""
    moment = datetime.fromtimestamp(breach.worst_at, ZoneInfo(zone))
    until = datetime.fromtimestamp(breach.worst_at + breach.worst_span, ZoneInfo(zone))
    form = "%H:%M" if breach.worst_span >= 120 else "%H:%M:%S"
    share = breach.worst_num / breach.num_bad
    pool, num = next(iter(breach.pools.items()))
    lines = [
        f"  where    pool {escape(pool)} ({num / breach.num_bad:.0%} of them), worst {moment:%a} {moment:{form}}–"
        f"{until:{form}} ({share:.0%})"
    ]
    if breach.queued_ratio is not None:
        place = "our queue" if breach.queued_ratio > 0.5 else "the engines"
        lines.append(f"  waiting  in {place}: {breach.queued_ratio:.0%} of their time to first token was queueing here")
    if breach.kv_usage is not None and breach.running is not None:
        lines.append(f"  engines  KV cache {breach.kv_usage:.0%} full, {breach.running:.3g} sequences running there")
    if breach.endings:
        told = ", ".join(f"{name} {num:,}" for name, num in list(breach.endings.items())[:3])
        lines.append(f"  endings  {escape(told)}")
    return lines


def _table(found: Headroom, policy: Policy) -> Table:
    """Every promise in the order of breaking, with its line painted."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tenant", no_wrap=True)
    table.add_column("promise", no_wrap=True)
    for heading in ("budget used now", "at the break", "breaks at"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    longest = max([line.factor or line.beyond or 1.0 for line in found.lines] + [2.0])
    for line in found.lines:
        table.add_row(
            f"{escape(line.key.tenant)} [dim]{escape(line.key.tier)}[/]",
            _short(policy, line.key),
            _burn(line.now),
            _burn(line.at_break),
            _breaks_at(line),
            _bar(line, longest),
        )
    return table


def _burn(value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:.0%}" if value < 100 else "> 10,000%"
    return f"[red]{text}[/]" if value > 1.0 else f"[yellow]{text}[/]" if value > 0.5 else text


def _breaks_at(line: Line) -> str:
    about = "≈ " if line.is_thin else ""
    if line.factor is not None:
        return f"{about}{line.factor:.2f}×"
    if line.under is not None:
        return f"< {line.under:.2f}×"
    if line.is_thin:
        return "[dim]too few[/]"
    return f"> {line.beyond:.2f}×" if line.beyond else "–"


def _bar(line: Line, longest: float) -> str:
    """From no load to where it breaks, the load of now marked with a line."""
    end = line.factor or line.under or line.beyond or 0.0
    length, now = round(end / longest * _BAR), round(1.0 / longest * _BAR)
    cells = ["━" if i < length else " " for i in range(_BAR + 1)]
    cells[min(now, _BAR)] = "┿" if now < length else "│"
    colour = "dim" if line.is_thin and line.beyond else "green" if end > 1.0 else "red"
    return f"[{colour}]{''.join(cells)}[/]" + ("[dim]›[/]" if line.beyond and not line.is_thin else "")


def _key(name: str) -> Key:
    tenant, tier, objective = name.rsplit(" ", 2)
    return Key(tenant, tier, objective)


def _short(policy: Policy, key: Key) -> str:
    for tier in policy.tiers:
        for objective in tier.objectives:
            if (tier.name, objective.name) == (key.tier, key.objective):
                below = "" if objective.sli.value == "availability" else f" < {format_duration(objective.below)}"
                return f"{objective.sli.value}{below}, {format_ratio(objective.target)}"
    return escape(key.objective)


def _promise(policy: Policy, key: Key) -> str:
    return f"[bold]{escape(key.tenant)}[/] ({escape(key.tier)}), {_short(policy, key)}"


def _small_print(found: Headroom) -> str:
    seeds = found.factor.values
    known = [value for value in seeds if value is not None]
    spread = f", breaks from {min(known):.2f} to {max(known):.2f}" if known else ""
    thin = sum(line.is_thin for line in found.lines)
    some = "promises were" if thin > 1 else "promise was"
    few = f" {thin} {some} judged too seldom to see more than a gross break: simulate longer." if thin else ""
    return (
        f"{found.num_trials} runs of {format_duration(found.duration)}, {len(seeds)} seeds{spread}; each break known "
        f"to {TOLERANCE:.0%}. Budget used: what was bad ÷ what the target allows. ┿ is the load of now.{few}"
    )

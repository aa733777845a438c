"""`plimsoll budget backtest`: were forecasts of error budgets any good on this log?"""

import sys
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.analytics.backtest import FIRST_AT, NAIVE, Backtest, Trial, summed, trials
from plimsoll.analytics.knownchanges import known_ahead
from plimsoll.cli.budgetbooks import hourly_counts, rules_of
from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import Json, LedgerUrl, Seconds
from plimsoll.cli.output import print_json, terminal
from plimsoll.errors import UsageError
from plimsoll.storage.promised import zones_of

WIDTH = 160
"""Columns where there is no terminal to ask."""


_COLUMNS = ("tenant", "objective", "forecasts", "in 80 % band", "below", "above", "gone when said", "pinball", *NAIVE)


class Backtests(Struct, frozen=True):
    """All of one log."""

    source: str
    every: float  # s
    total: Backtest
    objectives: tuple[Backtest, ...]


def backtest(
    log: Path,
    *,
    json_output: Json = False,
    every: Seconds = 86_400.0,
    tenant: str | None = None,
    timezone: str | None = None,
    ledger_url: LedgerUrl = None,
) -> None:
    """Check forecasts of error budgets against a log: coverage, and losses beside those of naive forecasts.

    Forecasts are made again at past instants from what was known then: what the next 24 hours would spend, and when an
    amount as large as the last three days' would be spent. A good 80 % band holds 80 % of what came, and its pinball
    loss (in mean days' consumption) is below that of a naive forecast. What the policy in the directory knows of
    beforehand (`budget.changes`, windows of exception) counts as known all along.

    Parameters
    ----------
    log
        A data directory, a Parquet file of requests as `plimsoll serve` leaves them, or a folder of such files.
    json_output
        Print everything as one JSON object.
    every
        Time from one forecast to the next, whole hours; below 24h their hours overlap.
    tenant
        Only this tenant.
    timezone
        Where the week is lived; default: each tenant's by the policy in the data directory, else UTC.
    """
    if every < 3600 or every % 3600:
        raise UsageError(f"--every {every:g}s: must be whole hours, from 1h")
    if timezone is not None:
        _check_zone(timezone)
    source = data_directory(log)
    rules, _ = rules_of(source)
    hourly = hourly_counts(source, rules, ledger_url)
    hourly = {key: hours for key, hours in hourly.items() if tenant in {None, key[0]}}
    if tenant is not None and not hourly:
        raise UsageError(f"nothing was judged for a tenant named {tenant!r} in {source}")
    zones = zones_of(source)
    found: list[Backtest] = []
    everything: list[Trial] = []
    for number, ((name, objective), hours) in enumerate(hourly.items(), 1):
        _progress(number, len(hourly))
        ahead = known_ahead(rules, name, objective)
        made = trials(hours, zone=timezone or zones(name), every=int(every // 3600), ahead=ahead)
        found.append(summed(name, objective, made))
        everything += made
    result = Backtests(str(source), every, summed("", "", everything), tuple(found))
    if json_output:
        print_json(result)
    else:
        _show(result, terminal(WIDTH))


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
        raise UsageError(f"--timezone {name}: no such zone; write one as Asia/Shanghai") from None


def _progress(number: int, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{number} of {of} objectives" + ("\n" if number == of else ""))


def _show(found: Backtests, console: Console) -> None:
    if not found.total.num and not found.total.num_states:
        console.print(f"Nothing to check: no objective has more than {FIRST_AT // 24} days in {found.source}.")
        return
    table = Table(title="Forecasts held against what came", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in {"tenant", "objective"} else "right")
    for each in (*found.objectives, found.total):
        table.add_row(*_row(each))
    console.print(table)
    states = ", ".join(f"{state}: {num}" for state, num in sorted(found.total.num_states.items()))
    if states:
        console.print(f"No forecast was made at {sum(found.total.num_states.values())} instants ({states}).")


def _row(found: Backtest) -> tuple[str, ...]:
    ended = f"{_percent(found.exhaustion_covered_ratio)} of {found.num_exhaustions}" if found.num_exhaustions else "–"
    return (
        escape(found.tenant) or "[bold]all[/]",
        escape(found.objective),
        str(found.num),
        _percent(found.covered_ratio),
        _percent(found.below_ratio),
        _percent(found.above_ratio),
        ended,
        "–" if found.pinball is None else f"{found.pinball:.3f}",
        *(f"{found.naive_pinball[name]:.3f}" if found.naive_pinball else "–" for name in NAIVE),
    )


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1%}"

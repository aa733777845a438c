"""`plimsoll budget status`: where every error budget stands."""

from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.cli.budgetbooks import paths_of, rows_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl, check_tenant
from plimsoll.cli.output import print_json, terminal
from plimsoll.console.figuretext import count_text
from plimsoll.governor.events import Standing
from plimsoll.ledger.assessment import UNFORESEEN, Row
from plimsoll.slo.budget import BudgetHealth
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.promised import policy_in_force

UNKNOWN = "–"
_COLOURS = {BudgetHealth.WARN: "yellow", BudgetHealth.DEGRADED: "red", BudgetHealth.EXHAUSTED: "bold red"}


class Status(Struct, frozen=True):
    """All of it. `at` is the instant of the assessment, UTC epoch s; None where nothing was judged yet."""

    at: float | None
    budgets: list[Row]
    standings: list[Standing]


def status(
    directory: DataDir,
    *,
    tenant: str | None = None,
    ledger_url: LedgerUrl = None,
    json_output: Json = False,
) -> None:
    """Show where every error budget stands: planned, spent by charge, burn, hours left, loans, state.

    Beside a running gateway these are the states of the last minute; else an assessment at the end of the log.

    Parameters
    ----------
    tenant
        Only this tenant.
    json_output
        Print everything as one JSON object (events in requests or tokens, instants in UTC epoch s).
    """
    paths = paths_of(directory)
    if tenant is not None:
        check_tenant(policy_in_force(paths.root), tenant)
    rows = [row for row in rows_of(paths, ledger_url) if tenant in {None, row.tenant}]
    standings = [each for each in Inbox(paths.root).standings() if tenant in {None, each.tenant}]
    found = Status(max((row.at for row in rows), default=None), rows, standings)
    if json_output:
        print_json(found)
    else:
        _show(found, terminal())


def _show(found: Status, console: Console) -> None:
    if found.at is None:
        console.print("Nothing was judged yet.")
        return
    zone = found.budgets[0].zone
    table = Table(
        title=f"Error budgets at {_time(found.at, zone)}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1)
    )
    numbers = ("granted", "planned", "spent", "left", "of plan", "burn 1h/6h/3d", "hours left", "lent/owed")
    for column in ("tenant", "objective", *numbers, "charged to", "state"):
        table.add_column(column, justify="right" if column in numbers else "left")
    for row in found.budgets:
        table.add_row(*_cells(row))
    console.print(table)
    for each in found.standings:
        zone = next((row.zone for row in found.budgets if row.tenant == each.tenant), zone)
        gives = [f"{each.headroom} requests more at once"] if each.headroom else []
        gives += ["one rank lower"] if each.demoted else []
        since, until = _time(each.from_at, zone), _time(each.until_at, zone)
        console.print(f"{escape(each.tenant)}: {' and '.join(gives)}, from {since} until {until}")


def _cells(row: Row) -> list[str]:
    colour = _COLOURS.get(row.health, "")
    state = row.health.words + ("" if row.acted or row.health not in _COLOURS else ", not acted on")
    return [
        escape(row.tenant),
        escape(row.objective),
        count_text(row.granted),
        UNKNOWN if row.planned is None else count_text(row.planned),
        count_text(row.num_spent),
        count_text(row.remaining) if row.remaining >= 0 else f"−{count_text(-row.remaining)}",
        UNKNOWN if row.spent_ratio is None else f"{row.spent_ratio:.1%}",
        " / ".join([UNKNOWN if rate is None else f"{rate:.3g}" for rate in row.burn]),
        _hours(row),
        f"{count_text(row.lent)}/{count_text(row.borrowed)}",
        ", ".join([f"{count_text(num)} {charge}" for charge, num in row.spent.items() if num]) or UNKNOWN,
        f"[{colour}]{state}[/]" if colour else state,
    ]


def _hours(row: Row) -> str:
    """Until exhausted, with its band, or why nobody knows; nothing within the month is said in words."""
    outlook = row.outlook
    if outlook.expected is None:
        return UNKNOWN if outlook == UNFORESEEN else outlook.state
    bounds = [outlook.hours_low, outlook.hours, outlook.hours_high]
    if all(bound is None for bound in bounds):
        return "not this month"
    low, middle, high = ["later" if bound is None else f"{bound:.0f}" for bound in bounds]
    return f"{middle} ({low} – {high})"


def _time(at: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(at, ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}"

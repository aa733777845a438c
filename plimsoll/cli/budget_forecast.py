"""`plimsoll budget forecast`: what each budget will spend in the next 24 hours, and when it will be gone."""

from fractions import Fraction
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.analytics.forecast import Band, Exhaustion, Forecast
from plimsoll.analytics.forecast import forecast as forecast_of
from plimsoll.analytics.knownchanges import known_ahead
from plimsoll.cli.budgetbooks import hourly_counts, rows_of, rules_of
from plimsoll.cli.logwindow import data_directory, instant
from plimsoll.cli.options import DataDir, Json, LedgerUrl
from plimsoll.cli.output import print_json, terminal
from plimsoll.console.figuretext import count_text
from plimsoll.errors import UnitError, UsageError
from plimsoll.ledger.assessment import Row
from plimsoll.policy.budgetrules import MOST_CHANGE as MOST
from plimsoll.policy.knownchange import KnownChange
from plimsoll.slo.budget import period_bounds
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.promised import zones_of
from plimsoll.units import parse_ratio

WIDTH = 160
"""Columns where there is no terminal to ask."""


class Foretold(Struct, frozen=True):
    """One objective of one tenant. `at` is the instant (UTC epoch s) from which it is foretold."""

    tenant: str
    objective: str
    at: float
    forecast: Forecast


def forecast(
    directory: DataDir,
    *,
    json_output: Json = False,
    tenant: str | None = None,
    at: str | None = None,
    step: list[str] | None = None,
    ledger_url: LedgerUrl = None,
) -> None:
    """Foretell what each error budget will spend in the next 24 hours and when it will be gone.

    Each figure has an 80 % band, from what forecasts made in the past on the same log would have missed by. Where
    nothing can be said yet, the reason stands there instead. When a budget will be gone is known where the directory
    holds books and the budget has a plan. What the policy knows beforehand is reckoned with: `budget.changes`, and
    windows of exception, which spend nothing.

    Parameters
    ----------
    json_output
        Print everything as one JSON object (events, hours, instants in UTC epoch s).
    tenant
        Only this tenant.
    at
        From when on: 2026-11-30, 2026-11-30T12:00, or 2h: before the end of the log. Default: the end of the log.
    step
        A change that is known, besides the policy's: 2026-12-03T08:00=1.5 (from then on budgets are spent 1.5 times
        as fast), in the service's zone unless it names an offset. May be given more than once.
    """
    source = data_directory(directory)
    rules, zone = rules_of(source)
    rules = replace(rules, changes=(*rules.changes, *[_step(text, zone) for text in step or ()]))
    hourly = hourly_counts(source, rules, ledger_url)
    hourly = {key: hours for key, hours in hourly.items() if tenant in {None, key[0]}}
    if tenant is not None and not hourly:
        raise UsageError(f"nothing was judged for a tenant named {tenant!r} in {source}")
    zones = zones_of(source)
    budgets = _budgets(source, ledger_url) if at is None else {}
    last = max((hours[-1].hour + 1 for hours in hourly.values()), default=0) * 3600.0
    found = []
    for (name, objective), hours in hourly.items():
        now = last if at is None else instant(at, zones(name), last)
        budget = budgets.get((name, objective))
        remaining, until = (None, None) if budget is None else _left(budget)
        ahead = known_ahead(rules, name, objective)
        made = forecast_of(hours, now, zone=zones(name), remaining=remaining, until=until, **ahead._asdict())
        found.append(Foretold(name, objective, now, made))
    if json_output:
        print_json(found)
    else:
        _show(found, terminal(WIDTH))


def _step(text: str, zone: str) -> KnownChange:
    when, _, factor = text.rpartition("=")
    try:
        found = parse_ratio(factor)
    except UnitError:
        found = Fraction(0)
    if not when or not 0 < found <= MOST:
        raise UsageError(f"--step {text}: write when and how many times as fast, up to {MOST}: 2026-12-03T08:00=1.5")
    return KnownChange(instant(when, zone, None), found)


def _budgets(source: Path, ledger_url: str | None) -> dict[tuple[str, str], Row]:
    """As last told, or as assessed at the end of the log; of a past instant they are not known."""
    paths = DataDirectory(source)
    if ledger_url is None and not paths.ledger.exists():
        return {}
    return {(row.tenant, row.objective): row for row in rows_of(paths, ledger_url)}


def _left(budget: Row) -> tuple[int | None, float]:
    """What remains of the planned grant, and until when; None without a plan."""
    left = None if budget.planned is None else max(0, budget.planned - budget.num_spent)
    return left, period_bounds(budget.period, budget.zone)[1]


def _show(found: list[Foretold], console: Console) -> None:
    if not found:
        console.print("Nothing was judged yet.")
        return
    table = Table(title="Budget that will be spent", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for column in ("tenant", "objective", "next 24 h", "80 % band", "gone in", "rests on"):
        table.add_column(column, justify="left" if column in {"tenant", "objective", "rests on"} else "right")
    for each in found:
        band, said = each.forecast.next_day, each.forecast
        expected, width = ("–", "–") if band is None else (count_text(round(band.expected)), _width(band))
        row = (expected, width, _ends(said.hours_to_exhaustion), said.basis or said.state.value)
        table.add_row(escape(each.tenant), escape(each.objective), *row)
    console.print(table)


def _width(band: Band) -> str:
    return f"{count_text(round(band.low))} to {count_text(round(band.upper))}"


def _ends(found: Exhaustion | None) -> str:
    """ "31 h (20 to 55)"; what lies behind the period's end is "later"."""
    if found is None:
        return "–"
    expected = "later" if found.expected is None else f"{found.expected:.0f} h"
    if found.low is None:
        return expected
    return f"{expected} ({found.low:.0f} to {'later' if found.upper is None else f'{found.upper:.0f}'})"

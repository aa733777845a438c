"""`plimsoll report`: what happened, from the log of a data directory."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from plimsoll.analytics.figures import Report
from plimsoll.analytics.gathering import Window
from plimsoll.analytics.report import compile_report
from plimsoll.cli.options import DataDir, Json, Since, Until, check_tenant
from plimsoll.cli.output import print_json, terminal, write_text
from plimsoll.errors import UnitError, UsageError
from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.units import parse_duration


def report(
    directory: DataDir,
    *,
    json_output: Json = False,
    html: Path | None = None,
    since: Since = None,
    until: Until = None,
    tenant: str | None = None,
    policy: Path | None = None,
) -> None:
    """Show what happened by tenant, tier and cause: endings, latencies, what was promised and kept, budgets.

    Reads the log while a gateway writes it, or without one, and changes nothing.

    Parameters
    ----------
    json_output
        Print everything as one JSON object (durations in s, instants in UTC epoch s).
    html
        Write a page to this file: it needs nothing else, and may be sent by mail.
    tenant
        Only this tenant's requests.
    policy
        Judge by this policy's targets; default: the one in the data directory.
    """
    found, zone = make(data_directory(directory), since=since, until=until, tenant=tenant, policy=policy)
    if html is not None:
        _write_page(found, zone, html)
    if json_output:
        print_json(found)
    elif html is None:
        _show(found, zone)


def data_directory(directory: Path) -> Path:
    """The directory itself, or the `data` below it where only that is one, as the demo leaves it."""
    inner = directory / "data"
    is_outer = not (directory / "plimsoll.json").exists() and (inner / "plimsoll.json").exists()
    return inner if is_outer else directory


def make(
    directory: Path, *, since: str | None, until: str | None, tenant: str | None, policy: Path | None
) -> tuple[Report, str]:
    """The report and the zone in which its times are to be read; UsageError where a window or file makes no sense."""
    from plimsoll.storage.aggregate import aggregate  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.storage.promised import policy_in_force, policy_versions  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    with connect(directory) as connection:
        promised = policy_in_force(directory) if policy is None else document.load(policy)
        last = connection.execute("SELECT max(arrived_at) FROM requests").fetchall()[0][0]
        window = window_of(since, until, tenant, promised, last)
        gathered = aggregate(connection, promised, window, policy_versions(directory))
    return compile_report(gathered, promised, window, str(directory)), promised.service.timezone


def window_of(since: str | None, until: str | None, tenant: str | None, policy: Policy, last: float | None) -> Window:
    """The window that was asked for; `last` is the last arrival in the log."""
    zone = policy.service.timezone
    begin = float("-inf") if since is None else instant(since, zone, last)
    end = float("inf") if until is None else instant(until, zone, last)
    if begin >= end:
        raise UsageError(f"--since {since} is not before --until {until}")
    check_tenant(policy, tenant)
    return Window(begin, end, tenant)


def instant(text: str, zone: str, last: float | None) -> float:
    """UTC epoch s of a date or time (in that zone where it names none), or of so long before the last arrival."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()
    try:
        seconds = parse_duration(text)
    except UnitError:
        raise UsageError(f"{text!r} is no time: write 2026-11-30, 2026-11-30T12:00 or 2h") from None
    return float("-inf") if last is None else last - seconds


def _write_page(found: Report, zone: str, path: Path) -> None:
    from plimsoll.console.reportpage import page  # noqa: PLC0415 - templates, only where they are needed

    write_text(path, page(found, zone))


def _show(found: Report, zone: str) -> None:
    from plimsoll.cli.reporttable import show  # noqa: PLC0415 - as above

    show(found, zone, terminal())

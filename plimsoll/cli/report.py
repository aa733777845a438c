"""`plimsoll report`: what happened, from the log of a data directory."""

from pathlib import Path

from plimsoll.analytics.figures import Report
from plimsoll.analytics.report import compile_report
from plimsoll.cli.logwindow import data_directory, window_of
from plimsoll.cli.options import DataDir, Json, Since, Until
from plimsoll.cli.output import print_json, terminal, write_text
from plimsoll.policy import document


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


def _write_page(found: Report, zone: str, path: Path) -> None:
    from plimsoll.console.reportpage import page  # noqa: PLC0415 - templates, only where they are needed

    write_text(path, page(found, zone))


def _show(found: Report, zone: str) -> None:
    from plimsoll.cli.reporttable import show  # noqa: PLC0415 - as above

    show(found, zone, terminal())

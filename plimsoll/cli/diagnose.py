"""`plimsoll diagnose`: who is crowded out, whose budget burns and since when, which root cause."""

from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll.cli.logwindow import data_directory, window_of
from plimsoll.cli.options import DataDir, Json, Since, Until
from plimsoll.cli.output import print_json, terminal

if TYPE_CHECKING:
    from plimsoll.diagnosis.findings import Findings


def diagnose(
    directory: DataDir,
    *,
    json_output: Json = False,
    tenant: str | None = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Say why requests were slow: who was crowded out by whom, since when, and the likeliest root cause.

    Three steps: space (seconds that each tenant waited because of each other), time (change points of the share of
    missed objectives), cause (where slow requests' time went beyond that of like ones). Nothing is named where nothing
    is likely. Reads the log while a gateway writes it, or without one, and changes nothing.

    Parameters
    ----------
    json_output
        Print everything as one JSON object (durations in s, instants in UTC epoch s).
    tenant
        Whose requests; default: each tenant that missed an objective, the worst first.
    """
    found, zone = make(data_directory(directory), tenant=tenant, since=since, until=until)
    if json_output:
        print_json(found)
        return
    from plimsoll.cli.diagnosistable import show_findings  # noqa: PLC0415 - tables, only where they are needed

    show_findings(found, zone, terminal())


def make(directory: Path, *, tenant: str | None, since: str | None, until: str | None) -> tuple["Findings", str]:
    """The findings and the zone of their times; UsageError where a window or tenant makes no sense."""
    from plimsoll.cli.diagnosing import engines_of, states_between, visits_between  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.diagnosis.findings import findings  # noqa: PLC0415 - as above
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    with connect(directory) as connection:
        policy = policy_in_force(directory)
        last = connection.execute("SELECT max(arrived_at) FROM requests").fetchall()[0][0]
        window = window_of(since, until, tenant, policy, last)
        visits = visits_between(connection, window.since, window.until)
        states = states_between(connection, window.since, window.until)
    found = findings(visits, engines_of(policy), tenant or "", str(directory), states)
    return found, policy.service.timezone

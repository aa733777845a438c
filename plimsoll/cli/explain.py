"""`plimsoll explain`: one request on one screen."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import DataDir, Json
from plimsoll.cli.output import print_json, terminal
from plimsoll.errors import UsageError

if TYPE_CHECKING:
    from plimsoll.diagnosis.explain import Explanation

LOOK_AROUND = 900.0
"""Seconds before a request's arrival from which others may still have been running."""


def explain(
    directory: DataDir,
    request: str,
    *,
    json_output: Json = False,
) -> None:
    """Explain one request: what happened when, where its time went, who was beside it, what it broke.

    Reads the log while a gateway writes it, or without one, and changes nothing.

    Parameters
    ----------
    request
        The id that the answer carried (x-request-id: req-0123456789abcdef), or the client's own id.
    json_output
        Print everything as one JSON object (durations in s, instants in UTC epoch s).
    """
    found, zone = make(data_directory(directory), request)
    if json_output:
        print_json(found)
        return
    from plimsoll.cli.diagnosistable import show_explanation  # noqa: PLC0415 - tables, only where they are needed

    show_explanation(found, zone, terminal())


def make(directory: Path, request: str) -> tuple["Explanation", str]:
    """The explanation and the zone of its times. Raises UsageError where no request of the log has that id."""
    from plimsoll.cli.diagnosing import engines_of, visits_between  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.diagnosis.explain import explain as explain_record  # noqa: PLC0415 - as above
    from plimsoll.storage.columns import records_of  # noqa: PLC0415 - as above
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    with connect(directory) as connection:
        number = _number(request)
        where, value = ("client_request_id = ?", request) if number is None else ("request_id = ?", number)
        table = connection.sql(f"SELECT * FROM requests WHERE {where}", params=[value]).to_arrow_table()
        records = list(records_of(table))
        if not records:
            raise UsageError(f"no request in {directory} has the id {request!r} (one that is still open is not there)")
        if len(records) > 1:
            raise UsageError(f"{len(records)} requests carry the client's id {request!r}: name one by our own id")
        (record,) = records
        visits = visits_between(connection, record.arrived_at - LOOK_AROUND, record.finished_at + 1e-6)
        policy = policy_in_force(directory)
    return explain_record(record, visits, engines_of(policy)), policy.service.timezone


def _number(text: str) -> int | None:
    """Of our own ids; None for any other text."""
    match = re.fullmatch(r"req-([0-9a-f]{16})", text.strip())
    return int(match[1], 16) if match else None

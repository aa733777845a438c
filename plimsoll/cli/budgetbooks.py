"""What the `plimsoll budget` commands share: the states last told, an assessment, decisions on their way."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from plimsoll.cli.logwindow import data_directory
from plimsoll.errors import DataDirectoryBusy, UsageError
from plimsoll.ledger.assessment import Row
from plimsoll.ledger.decided import Decided
from plimsoll.policy.budget import BudgetRules
from plimsoll.policy.objective import RUN
from plimsoll.slo.budget import HourCount
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.promised import policy_in_force

if TYPE_CHECKING:
    from plimsoll.storage.ledger import LedgerDatabase


class Handed(Struct, frozen=True):
    """What became of a decision."""

    key: str
    how: str


def paths_of(directory: Path) -> DataDirectory:
    """The data directory; UsageError where it is none."""
    paths = DataDirectory(data_directory(directory))
    paths.identity()
    return paths


def told_rows(paths: DataDirectory) -> list[Row]:
    """The states that the service kept last, in milliseconds; empty where it never ran on this SQLite ledger."""
    decode = msgspec.msgpack.Decoder(Row).decode
    return [decode(data) for (data,) in _asked(paths, "SELECT data FROM states ORDER BY tenant, objective")]


def _asked(paths: DataDirectory, query: str, *parameters: str) -> list[tuple[Any, ...]]:
    """Rows of the SQLite ledger; none where it is of the first version, or not there yet."""
    if not paths.ledger.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{paths.ledger.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)) as books:
            return books.execute(query, parameters).fetchall()
    except sqlite3.Error:
        return []


def rules_of(source: Path) -> tuple[BudgetRules, str]:
    """What the policy in a log's directory says of budgets, and in which zone times are read (without one: UTC)."""
    if not DataDirectory(source).policy.exists():
        return BudgetRules(), "UTC"
    policy = policy_in_force(source)
    return policy.budget, policy.service.timezone


def hourly_counts(source: Path, rules: BudgetRules, ledger_url: str | None) -> dict[tuple[str, str], list[HourCount]]:
    """What was judged and bad by hour: requests as the log has them, and agents' runs as the books have them."""
    from plimsoll.storage.hourly import hours_of  # noqa: PLC0415 - duckdb, only where it is needed

    return hours_of(source, rules.exceptions) | _run_hours(DataDirectory(source), ledger_url)


def _run_hours(paths: DataDirectory, ledger_url: str | None) -> dict[tuple[str, str], list[HourCount]]:
    """No row of the request log has them. None where there are no books."""
    if ledger_url is None:
        query = (
            "SELECT tenant, hour, sum(num_good + num_bad), sum(num_bad) FROM hours WHERE objective = ? "
            "GROUP BY tenant, hour ORDER BY tenant, hour"
        )
        found = _asked(paths, query, RUN)
    else:
        from plimsoll.storage.knowing import hours_of_objective  # noqa: PLC0415 - sqlalchemy, only where it is needed

        with opened(paths, ledger_url) as books, books.reading() as connection:
            found = hours_of_objective(connection, RUN)
    hours: dict[tuple[str, str], list[HourCount]] = {}
    for tenant, *counts in found:
        hours.setdefault((tenant, RUN), []).append(HourCount(*counts))
    return hours


def rows_of(paths: DataDirectory, ledger_url: str | None) -> list[Row]:
    """The states last told; where nobody kept any, what an assessment at the log's end comes to (slower)."""
    if ledger_url is None and (rows := told_rows(paths)):
        return rows
    from plimsoll.storage.budgeting import BudgetKeeper  # noqa: PLC0415 - sqlalchemy and numpy, where they are needed

    with opened(paths, ledger_url) as books:
        from plimsoll.storage.knowing import Knowledge, last_told  # noqa: PLC0415 - as above

        with books.reading() as connection:
            kept = sorted(Knowledge(books).rows(connection), key=lambda row: (row.tenant, row.objective))
            at = last_told(connection)
        if kept:
            return kept
        return list(BudgetKeeper(paths, books).assess(policy_in_force(paths.root), at).rows) if at else []


@contextmanager
def opened(paths: DataDirectory, ledger_url: str | None) -> "Iterator[LedgerDatabase]":
    """The books; UsageError where there are none."""
    from plimsoll.storage.ledger import LedgerDatabase  # noqa: PLC0415 - as above

    if ledger_url is None and not paths.ledger.exists():
        raise UsageError(f"{paths.root} holds no ledger yet: run plimsoll project {paths.root}")
    with LedgerDatabase(ledger_url or paths.ledger) as books:
        yield books


def hand_over(paths: DataDirectory, decided: Decided, ledger_url: str | None) -> Handed:
    """Into the journal: by the gateway that runs, else at once; then into the books."""
    from plimsoll.requestlog.codec import encode  # noqa: PLC0415 - as above
    from plimsoll.storage.journal import Journal  # noqa: PLC0415 - as above
    from plimsoll.storage.projections import Projections  # noqa: PLC0415 - as above
    from plimsoll.storage.rows import DECISION_NOTE  # noqa: PLC0415 - as above

    try:
        journal = Journal.open(paths.root)
    except DataDirectoryBusy:
        Inbox(paths.root).put(decided)
        return Handed(decided.key, "handed to the gateway, which journals it within a second")
    try:
        journal.note(time.time(), DECISION_NOTE, encode(decided))
    finally:
        journal.close()
    try:
        with Projections(paths.root, ledger_url) as projections:
            projections.catch_up()
    except DataDirectoryBusy:
        return Handed(decided.key, "journaled; the process that projects this log will book it")
    return Handed(decided.key, "journaled and booked")

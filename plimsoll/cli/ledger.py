"""`plimsoll ledger`: prove the books, or make them anew from the log."""

import sys
from typing import Literal

from plimsoll.cli.budgetbooks import paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl
from plimsoll.cli.output import print_json
from plimsoll.storage.audit import Audit, audit
from plimsoll.storage.datadir import DataDirectory, Lock
from plimsoll.storage.ledger import LedgerDatabase
from plimsoll.storage.projections import Projections
from plimsoll.storage.reader import first_offset


def ledger(
    action: Literal["verify", "rebuild"],
    directory: DataDir,
    *,
    ledger_url: LedgerUrl = None,
    json_output: Json = False,
) -> None:
    """Prove that the ledger balances and agrees with the log, or rebuild it from the log.

    `verify` sums the whole journal anew and compares it with what is booked: every amount moved, every judged event,
    every grant, every balance, and that all accounts sum to zero. It exits with 0 when all is right, 1 when not.
    `rebuild` takes out what came from this log and posts it again, then verifies.

    Parameters
    ----------
    action
        verify or rebuild.
    json_output
        Print one JSON object.
    """
    paths = paths_of(directory)
    if action == "rebuild":
        _rebuild(paths, ledger_url)
    with LedgerDatabase(ledger_url or paths.ledger) as books:
        result = audit(paths, books)
    _show(result, json_output=json_output)
    if result.findings:
        sys.exit(1)


def _rebuild(paths: DataDirectory, url: str | None) -> None:
    lock = Lock(paths.projector_lock)
    try:
        with LedgerDatabase(url or paths.ledger) as books:
            books.forget(paths.identity().log, first_offset(paths.journal))
    finally:
        lock.release()
    with Projections(paths.root, url) as projections:
        projections.catch_up()


def _show(result: Audit, *, json_output: bool) -> None:
    if json_output:
        print_json(result)
        return
    for finding in result.findings:
        print(finding)  # noqa: T201 - the command's output
    verdict = "the books are right" if not result.findings else f"{len(result.findings)} things are wrong"
    print(  # noqa: T201 - the command's output
        f"{verdict}: {result.num_settled} requests, {result.num_entries} entries, {result.num_accounts} accounts, "
        f"the log up to offset {result.posted_to}"
    )
    if result.log_end > result.posted_to:
        print(f"not posted yet: the log goes on to offset {result.log_end}")  # noqa: T201 - the command's output

"""`plimsoll budget statement`: a tenant's month as HTML and CSV that add up."""

import sys
from pathlib import Path

import msgspec

from plimsoll.cli.budgetbooks import Json, LedgerUrl, check_tenant, opened, paths_of
from plimsoll.errors import UsageError
from plimsoll.ledger.promise import Promises, is_month
from plimsoll.ledger.statement import statement as statement_of
from plimsoll.storage.promised import policy_in_force


def statement(
    directory: Path,
    tenant: str,
    month: str,
    *,
    html: Path | None = None,
    csv: Path | None = None,
    ledger_url: LedgerUrl = None,
    json_output: Json = False,
) -> None:
    """Write a tenant's statement of a month: all movements on its accounts, and balances that sum to zero.

    Other tenants are not named in it: it can be given to the customer. Without --html and --csv the CSV is printed.

    Parameters
    ----------
    directory
        A data directory, as `plimsoll serve --data DIR` leaves it.
    tenant
        Whose.
    month
        Which: 2026-11.
    html
        Write a page to this file.
    csv
        Write the movements to this file.
    ledger_url
        Where the books are, if not in the directory: postgresql://user@host/name.
    json_output
        Print the statement as one JSON object.
    """
    from plimsoll.console import statementpage  # noqa: PLC0415 - templates, only where they are needed
    from plimsoll.storage.knowing import Knowledge  # noqa: PLC0415 - sqlalchemy, as above

    paths = paths_of(directory)
    policy = policy_in_force(paths.root)
    if not is_month(month):
        raise UsageError(f"{month!r} is no month: write 2026-11")
    with opened(paths, ledger_url) as books:
        entries = Knowledge(books).entries_of(tenant, month)
    if not entries:
        check_tenant(policy, tenant)
        raise UsageError(f"nothing was booked for {tenant} in {month}")
    made = statement_of(tenant, month, Promises(policy).zone(tenant), entries)
    if html is not None:
        _write(html, statementpage.page(made))
    if csv is not None:
        _write(csv, statementpage.table(made))
    if json_output:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(made)).decode() + "\n")
    elif html is None and csv is None:
        sys.stdout.write(statementpage.table(made))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error

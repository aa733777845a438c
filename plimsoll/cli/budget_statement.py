"""`plimsoll budget statement`: a tenant's month as HTML and CSV that add up."""

import sys
from pathlib import Path

from plimsoll.cli.budgetbooks import opened, paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl, check_tenant
from plimsoll.cli.output import print_json, write_text
from plimsoll.errors import UsageError
from plimsoll.ledger.promise import Promises, is_month
from plimsoll.ledger.statement import statement as statement_of
from plimsoll.storage.promised import policy_in_force


def statement(
    directory: DataDir,
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
    tenant
        Whose.
    month
        Which: 2026-11.
    html
        Write a page to this file.
    csv
        Write the movements to this file.
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
        write_text(html, statementpage.page(made))
    if csv is not None:
        write_text(csv, statementpage.table(made))
    if json_output:
        print_json(made)
    elif html is None and csv is None:
        sys.stdout.write(statementpage.table(made))

"""`plimsoll budget correct`: move events that were booked wrongly, by an entry of its own."""

import getpass
import sys
import time

from plimsoll.cli.budgetbooks import hand_over, opened, paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl, check_tenant
from plimsoll.cli.output import print_json
from plimsoll.errors import UsageError
from plimsoll.ledger.accounts import Owner
from plimsoll.ledger.decided import Corrected
from plimsoll.ledger.promise import Promises, is_month
from plimsoll.ledger.undoing import corrected
from plimsoll.slo.verdict import Charge
from plimsoll.storage.promised import policy_in_force


def correct(
    directory: DataDir,
    tenant: str,
    objective: str,
    num: int,
    *,
    charged: Charge,
    why: str,
    to: Charge | None = None,
    month: str | None = None,
    ledger_url: LedgerUrl = None,
    json_output: Json = False,
) -> None:
    """Correct what a budget spent: give events back that were not bad, or charge them to somebody else.

    It is an entry of its own, never an edit, and a row of the journal; `plimsoll budget undo KEY` takes it back. A
    month that is closed stays as it is.

    Parameters
    ----------
    tenant
        Whose budget.
    objective
        Which.
    num
        How many events (requests, tokens for itl, runs for run).
    charged
        To whom they are charged now: ours, upstream, joint, infeasible, unlabelled or client.
    why
        For the record, and for the tenant's statement.
    to
        To whom they should have been charged; default: they were not bad, and go back into the budget.
    month
        Which: 2026-11; default: the present one.
    json_output
        Print one JSON object: the key, and what became of it.
    """
    from plimsoll.storage.knowing import Knowledge  # noqa: PLC0415 - sqlalchemy, only where it is needed

    paths = paths_of(directory)
    policy = policy_in_force(paths.root)
    check_tenant(policy, tenant)
    promises, now = Promises(policy), time.time()
    _check(promises, Owner(tenant, objective), num)
    if to is charged:
        raise UsageError(f"they are charged to {to} already")
    period = month or promises.period(tenant, now)
    if not is_month(period):
        raise UsageError(f"{period!r} is no month: write 2026-11")
    key = f"correction/{tenant}/{objective}/{period}/{int(now * 1000)}"
    what = Corrected(
        key, tenant, objective, period, num, charged.value, "" if to is None else to.value, now, getpass.getuser(), why
    )
    with opened(paths, ledger_url) as books:
        decided = corrected(what, promises, Knowledge(books).known(promises, now, also=period))
    handed = hand_over(paths, decided, ledger_url)
    if json_output:
        print_json(handed)
    else:
        sys.stdout.write(f"{handed.key}: {handed.how}\n")


def _check(promises: Promises, owner: Owner, num: int) -> None:
    if owner not in promises.by_owner:
        known = ", ".join(sorted(each.objective for each in promises.by_owner if each.tenant == owner.tenant))
        raise UsageError(f"{owner.tenant} has no objective {owner.objective!r}; known: {known}")
    if num < 1:
        raise UsageError(f"{num} events: at least one is corrected")

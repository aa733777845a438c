"""`plimsoll budget undo`: take a decision back."""

import getpass
import sys
import time

from plimsoll.cli.budgetbooks import hand_over, opened, paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl
from plimsoll.cli.output import print_json
from plimsoll.errors import UsageError
from plimsoll.ledger.promise import Promises
from plimsoll.ledger.undoing import Wish
from plimsoll.ledger.undoing import undo as undoing
from plimsoll.storage.promised import policy_in_force


def undo(
    directory: DataDir, key: str, *, why: str = "", ledger_url: LedgerUrl = None, json_output: Json = False
) -> None:
    """Undo an override, an automatic action until its month's end, loans, or a correction; all stays on record.

    Of loans, what is unspent goes back to its lenders by entries that correct, and their borrowers are lent nothing
    more this month. A month's close is not undone: mend what it rests on and run `plimsoll budget close` again.

    Parameters
    ----------
    key
        The decision's key: `override/…`, `action/…`, `pool/…` or `correction/…`, as `plimsoll journal DIR --kind
        decision` lists them.
    why
        For the record.
    json_output
        Print one JSON object: the key, and what became of it.
    """
    from plimsoll.storage.knowing import Knowledge  # noqa: PLC0415 - sqlalchemy, only where it is needed

    paths = paths_of(directory)
    promises, now = Promises(policy_in_force(paths.root)), time.time()
    with opened(paths, ledger_url) as books:
        decisions = books.decisions()
        found = decisions.get(key)
        if found is None:
            raise UsageError(f"no decision has the key {key!r}")
        wish = Wish(key, now, getpass.getuser(), why)
        if wish.own_key in decisions:
            raise UsageError(f"{key} is undone already")
        decided = undoing(wish, found.kind, found.data, promises, Knowledge(books).known(promises, now))
    handed = hand_over(paths, decided, ledger_url)
    if json_output:
        print_json(handed)
    else:
        sys.stdout.write(f"{handed.key}: {handed.how}\n")

"""`plimsoll budget undo`: take a decision back."""

import getpass
import sys
import time

import msgspec

from plimsoll.cli.budgetbooks import hand_over, opened, paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl
from plimsoll.cli.output import print_json
from plimsoll.errors import UsageError
from plimsoll.ledger.actions import Action, Override
from plimsoll.ledger.decided import Decided, DecisionKind, Undone
from plimsoll.ledger.promise import Promises
from plimsoll.storage.promised import policy_in_force


def undo(
    directory: DataDir, key: str, *, why: str = "", ledger_url: LedgerUrl = None, json_output: Json = False
) -> None:
    """Undo an override, or an automatic action until the end of its month; both stay on record.

    Loans and closes are not undone: lenders recall what they need, and a close run again posts what was missing.

    Parameters
    ----------
    key
        The decision's key: `override/…`, or `action/…` as `plimsoll budget explain --json` lists them.
    why
        For the record.
    json_output
        Print one JSON object: the key, and what became of it.
    """
    paths = paths_of(directory)
    with opened(paths, ledger_url) as books:
        found = books.decisions().get(key)
    if found is None:
        raise UsageError(f"no decision has the key {key!r}")
    now, who = time.time(), getpass.getuser()
    if found.kind is DecisionKind.OVERRIDE:
        undone = Undone(key, now, who, why)
        decided = Decided(f"undo/{key}", DecisionKind.UNDO, (), msgspec.msgpack.encode(undone))
    elif found.kind is DecisionKind.ACTION:
        action = msgspec.msgpack.decode(found.data, type=Action)
        promises = Promises(policy_in_force(paths.root))
        _, end = promises.bounds(action.tenant, promises.period(action.tenant, action.at))
        made = Override(f"undo/{key}", action.tenant, action.objective, now, end, who, why or f"undoes {key}")
        decided = Decided(made.key, DecisionKind.OVERRIDE, (), msgspec.msgpack.encode(made))
    else:
        raise UsageError(f"{key} is a {found.kind} and cannot be undone: see plimsoll budget undo --help")
    handed = hand_over(paths, decided, ledger_url)
    if json_output:
        print_json(handed)
    else:
        sys.stdout.write(f"{handed.key}: {handed.how}\n")

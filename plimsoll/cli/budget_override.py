"""`plimsoll budget override`: let nothing be done about a tenant's budget for a time."""

import getpass
import sys
import time

import msgspec

from plimsoll.cli.budgetbooks import hand_over, paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl, Seconds, check_tenant
from plimsoll.cli.output import print_json
from plimsoll.errors import UsageError
from plimsoll.ledger.actions import Override
from plimsoll.ledger.decided import Decided, DecisionKind
from plimsoll.storage.promised import policy_in_force


def override(
    directory: DataDir,
    tenant: str,
    *,
    lasts: Seconds,
    objective: str = "",
    why: str = "",
    ledger_url: LedgerUrl = None,
    json_output: Json = False,
) -> None:
    """Let nothing be done about a tenant's budgets for a time: no degradation, no lower rank.

    States are told as before. The override is a row of the journal; `plimsoll budget undo KEY` ends it early.

    Parameters
    ----------
    tenant
        Whose.
    lasts
        For how long: 4h, 3d.
    objective
        Only this objective; default: all of the tenant's. A lower rank is spared only by one for all.
    why
        For the record.
    json_output
        Print one JSON object: the key, and what became of it.
    """
    paths = paths_of(directory)
    policy = policy_in_force(paths.root)
    check_tenant(policy, tenant)
    if lasts <= 0:
        raise UsageError("--lasts: must be above 0s")
    tiers = {policy.tenant(tenant).tier, *policy.tenant(tenant).tiers}
    known = {each.name for tier in policy.tiers if tier.name in tiers for each in tier.promised}
    if objective and objective not in known:
        raise UsageError(f"{tenant} has no objective {objective!r}; known: {', '.join(sorted(known))}")
    now = time.time()
    key = f"override/{tenant}/{objective or 'all'}/{int(now * 1000)}"
    made = Override(key, tenant, objective, now, now + lasts, getpass.getuser(), why)
    handed = hand_over(paths, Decided(key, DecisionKind.OVERRIDE, (), msgspec.msgpack.encode(made)), ledger_url)
    if json_output:
        print_json(handed)
    else:
        sys.stdout.write(f"{handed.key}: {handed.how}\n")

"""`plimsoll budget close`: close a month, or add what came in since it was closed."""

import sys
import time
from datetime import UTC, datetime

from plimsoll.cli.budgetbooks import Handed, hand_over, opened, paths_of
from plimsoll.cli.options import DataDir, Json, LedgerUrl
from plimsoll.cli.output import print_json
from plimsoll.errors import UsageError
from plimsoll.ledger.booking import closes_at
from plimsoll.ledger.monthend import MonthEnds
from plimsoll.ledger.promise import Promises, is_month
from plimsoll.storage.promised import policy_in_force


def close(directory: DataDir, month: str, *, ledger_url: LedgerUrl = None, json_output: Json = False) -> None:
    """Close a month: cover what was spent, give loans back, let the rest expire, exchange it for headroom.

    The service does so by itself a day after the month's end. By hand it helps where no service ran, and after another
    gateway's log came late: run again it posts the difference, or nothing.

    Parameters
    ----------
    month
        Which: 2026-11. It is closed zone by zone.
    json_output
        Print one JSON array: what was decided, by key, and what became of it.
    """
    from plimsoll.storage.knowing import Knowledge  # noqa: PLC0415 - sqlalchemy, only where it is needed

    paths = paths_of(directory)
    if not is_month(month):
        raise UsageError(f"{month!r} is no month: write 2026-11")
    policy = policy_in_force(paths.root)
    if policy.service.period != "month":
        raise UsageError(f"service.period is {policy.service.period}: rolling budgets are never closed")
    promises, now = Promises(policy), time.time()
    zones = sorted({each.zone for each in promises.by_owner.values()})
    for zone in zones:
        if now < closes_at(month, zone):
            since = datetime.fromtimestamp(closes_at(month, zone), UTC)
            raise UsageError(f"{month} is not over in {zone}: it can be closed from {since:%Y-%m-%dT%H:%MZ} on")
    with opened(paths, ledger_url) as books:
        known = Knowledge(books).known(promises, now, also=month)
        if month not in known.months:
            booked = ", ".join(sorted(known.months)) or "none"
            raise UsageError(f"nothing was booked for {month}; months that can be closed: {booked}")
        ends = MonthEnds(promises, known, now)
        decisions = [decided for zone in zones if (decided := ends.close(zone, month)) is not None]
    handed: list[Handed] = [hand_over(paths, decided, ledger_url) for decided in decisions]
    if json_output:
        print_json(handed)
        return
    for each in handed:
        sys.stdout.write(f"{each.key}: {each.how}\n")
    if not handed:
        sys.stdout.write(f"{month} is closed, and nothing came in since\n")

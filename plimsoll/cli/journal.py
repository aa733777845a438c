"""`plimsoll journal`: what was decided, when and why."""

import sys
from collections import deque

import msgspec

from plimsoll.cli.logwindow import data_directory, window_of
from plimsoll.cli.options import DataDir, Json


def journal(
    directory: DataDir,
    *,
    json_output: Json = False,
    tenant: str | None = None,
    kind: str | None = None,
    reason: str | None = None,
    since: str | None = None,
    until: str | None = None,
    last: int = 50,
) -> None:
    """Show what was decided, when and why: policies, budgets, every request that did not simply complete.

    Reads the log while a gateway writes it, or without one, and changes nothing.

    Parameters
    ----------
    json_output
        Print one JSON object a line, with the evidence of each (instants in UTC epoch s); --last does not hold.
    tenant
        Only what concerns this tenant; what concerns all of them concerns it too.
    kind
        policy, budget (its state changed), decision (loans, actions, overrides, closes), replica (it serves
        another pool), unlogged, or request.
    reason
        One reason, state or kind of decision: queue_full, degraded, close …; `docs/reasons.md` lists those of requests.
    since
        Only from then on: 2026-11-30, 2026-11-30T12:00, or 2h: before the last arrival.
    until
        Only before; as --since.
    last
        How many are shown, the latest ones; 0: all.
    """
    from plimsoll.console.figuretext import instant_text  # noqa: PLC0415 - only what is needed, when it is
    from plimsoll.storage.chronicle import Wanted, chronicle  # noqa: PLC0415 - as above
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    root = data_directory(directory)
    policy = policy_in_force(root)
    latest = None
    if since is not None or until is not None:
        with connect(root) as connection:
            latest = connection.execute("SELECT max(arrived_at) FROM requests").fetchall()[0][0]
    window = window_of(since, until, tenant, policy, latest)
    entries = chronicle(root, Wanted(window.since, window.until, tenant, kind, reason))
    if json_output:
        for entry in entries:
            sys.stdout.write(msgspec.json.encode(entry).decode() + "\n")
        return
    shown = deque(entries, maxlen=last or None)
    for entry in shown:
        who = entry.tenant or "(all)"
        sys.stdout.write(f"{instant_text(entry.at, policy.service.timezone)}  {entry.kind:8}  {who:12}  {entry.text}\n")
    if not shown:
        sys.stdout.write("Nothing of that kind is in the journal.\n")
